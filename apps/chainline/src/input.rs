//! The chain file on the command line.

use crate::exit::WrongInput;
use crate::{kinds, replicas, report};
use chainline_chain::model::File;
use chainline_chain::{Host, MAX_BYTES, load_bytes};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Arguments of commands that read a chain file.
#[derive(Debug, clap::Args)]
pub struct ChainFile {
    /// The chain file, YAML or JSON; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    #[command(flatten)]
    pub cores: Cores,
}

/// Which cores there are.
#[derive(Debug, clap::Args)]
pub struct Cores {
    /// The cores that the file may use, such as 0-3,8: those of another host than this, for example.
    #[arg(long = "cores", value_name = "LIST", value_parser = parse_cores)]
    list: Option<CoreList>,
}

/// Cores in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreList(pub Vec<usize>);

impl Cores {
    /// The given ones, else those that this process may run on, in ascending order.
    pub fn get(&self) -> anyhow::Result<Vec<usize>> {
        if let Some(CoreList(cores)) = &self.list {
            return Ok(cores.clone());
        }
        let set = rustix::thread::sched_getaffinity(None)?;
        Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
    }
}

/// `0-3,8`
pub fn parse_cores(text: &str) -> Result<CoreList, String> {
    /// As in the chain file.
    const MAX_CORE: usize = 65_535;
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last <= MAX_CORE => cores.extend(first..=last),
            _ => return Err(format!("found \"{part}\", expected a core or a range such as 0-3")),
        }
    }
    cores.sort_unstable();
    cores.dedup();
    Ok(CoreList(cores))
}

impl ChainFile {
    /// Loads the file and checks it against the cores and the built-in kinds; warnings go to standard error.
    pub fn load(&self) -> anyhow::Result<(File, Vec<usize>)> {
        let cores = self.cores.get()?;
        let file = load(&self.path, &cores)?;
        report::warnings(&file);
        Ok((file, cores))
    }
}

/// Loads one file and checks it against the cores and the built-in kinds.
pub fn load(path: &Path, cores: &[usize]) -> anyhow::Result<File> {
    load_text(&read(path)?, path, cores)
}

/// [`load`] of a text that was read already.
pub fn load_text(bytes: &[u8], path: &Path, cores: &[usize]) -> anyhow::Result<File> {
    let registry = kinds::registry();
    let names: Vec<&str> = registry.iter().map(|kind| kind.name).collect();
    let host = Host { cores: Some(cores), kinds: Some(&names) };
    let mut file = load_bytes(bytes, path, &host)?;
    replicas::check(&mut file)?;
    Ok(file)
}

/// No more of the file than tells that it is too long.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MAX_BYTES as u64 + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|f| f.take(most).read_to_end(&mut bytes))
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(e) => Err(WrongInput(format!("cannot read {}: {e}", path.display())).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{CoreList, parse_cores};

    #[test]
    fn lists_of_cores() {
        assert_eq!(parse_cores("8,0-2,1"), Ok(CoreList(vec![0, 1, 2, 8])));
        for bad in ["", "3-1", "a", "0-99999999999", "1,,2"] {
            assert!(parse_cores(bad).is_err(), "{bad}");
        }
    }
}
