// The page: plots as they come into view, the packed results, buttons.
const json = async () => {
  const bytes = Uint8Array.from(atob(document.getElementById("results").textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
const say = (words) => { const s = document.getElementById("says"); s.textContent = words; s.classList.add("on"); setTimeout(() => s.classList.remove("on"), 1600); };
function download(name, text, type) {
  const a = element("a", undefined, { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}

const sections = JSON.parse(document.getElementById("plots").textContent);
const drawn = [];
const drawAll = () => document.querySelectorAll("figure[data-plot]:not([data-seen])").forEach((f) => { f.dataset.seen = ""; const d = draw(f, sections[Number(f.dataset.plot) - 1]); if (d) drawn.push(d); });
// A page of many plots opens at once: each is drawn when it comes near. Printing draws the rest.
const near = new IntersectionObserver((all) => {
  for (const e of all) if (e.isIntersecting && e.target.dataset.seen === undefined) {
    e.target.dataset.seen = "";
    const d = draw(e.target, sections[Number(e.target.dataset.plot) - 1]);
    if (d) drawn.push(d);
  }
}, { rootMargin: "800px" });
document.querySelectorAll("figure[data-plot]").forEach((f) => near.observe(f));
const again = () => drawn.forEach((d) => d.again());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
addEventListener("resize", () => drawn.forEach((d) => d.resize()));
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("print");
  document.querySelectorAll("details.numbers").forEach((d) => { d.open = true; });
  drawAll(); again();
});
addEventListener("afterprint", () => { document.documentElement.classList.remove("print"); again(); });

document.getElementById("raw").addEventListener("toggle", async (e) => {
  const body = document.getElementById("raw-body");
  if (!e.target.open || body.childElementCount) return;
  body.textContent = "Unpacking …";
  try { showTrials(body, JSON.parse(await json()).trials); } catch (error) { body.textContent = `The trials could not be unpacked: ${error}`; }
});
document.getElementById("save-json").addEventListener("click", async () => {
  try { download("results.json", await json(), "application/json"); } catch (error) { say(`Could not be unpacked: ${error}`); }
});
document.querySelectorAll("[data-copy]").forEach((b) => b.addEventListener("click", async () => {
  const from = document.getElementById(b.dataset.copy);
  try { await navigator.clipboard.writeText(from.textContent); say("Copied"); } catch {
    getSelection().selectAllChildren(from); say("Selected: copy with Ctrl+C");
  }
}));
document.querySelectorAll("[data-save]").forEach((b) => b.addEventListener("click", () => download(b.dataset.name.replace(/^.*\//, "") || "benchmark.yaml", document.getElementById(b.dataset.save).textContent, "text/plain")));

const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
const current = new IntersectionObserver((all) => {
  for (const e of all) if (e.isIntersecting) {
    links.forEach((a) => a.removeAttribute("aria-current"));
    links.get(e.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "-10% 0px -80% 0px" });
document.querySelectorAll("main > section").forEach((s) => current.observe(s));
document.documentElement.dataset.ready = "";
