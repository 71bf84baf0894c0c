// What the page uses of ECharts, and nothing else of it.
import { use } from "echarts/core";
import { BarChart, CustomChart, HeatmapChart, LineChart } from "echarts/charts";
import {
    AriaComponent,
    DataZoomComponent,
    GridComponent,
    LegendComponent,
    ToolboxComponent,
    TooltipComponent,
    VisualMapContinuousComponent,
} from "echarts/components";
import { SVGRenderer } from "echarts/renderers";

export { init } from "echarts/core";

use([
    AriaComponent,
    BarChart,
    CustomChart,
    DataZoomComponent,
    GridComponent,
    HeatmapChart,
    LegendComponent,
    LineChart,
    SVGRenderer,
    ToolboxComponent,
    TooltipComponent,
    VisualMapContinuousComponent,
]);
