//! Who may depend on whom.

use super::Package;
use super::rules::*;

pub fn check(packages: &[Package], problems: &mut Vec<String>) {
    for package in packages {
        let Some(height) = height(&package.name) else {
            problems.push(format!("{} has no place in the layers of xtask/src/tidy/rules.rs", package.name));
            continue;
        };
        let links =
            package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
        for dependency in links {
            let name = dependency.name.as_str();
            let says = |rule: &str| format!("{} depends on {name}: {rule}", package.name);
            if dependency.path.is_some() {
                if self::height(name).is_none_or(|below| below >= height) {
                    problems.push(says("arrows go down the list of layers only"));
                }
                if BACKENDS.contains(&name) && !MAY_NAME_BACKENDS.contains(&package.name.as_str()) {
                    problems.push(says("only the facade names a backend"));
                }
                if package.name == LAUNCHER && !LAUNCHER_MAY_USE.contains(&name) {
                    problems.push(says("the launcher links no engine"));
                }
            }
            if WITHOUT_OS.contains(&package.name.as_str()) && OS_CRATES.contains(&name) {
                problems.push(says("this crate knows no operating system"));
            }
        }
    }
}

fn height(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Dependency;

    fn package(name: &str, on: &str, kind: Option<&str>) -> Vec<Package> {
        let path = LAYERS.contains(&on).then(|| on.into());
        let dependency = Dependency { name: on.into(), kind: kind.map(str::to_owned), path };
        vec![Package {
            name: name.into(),
            manifest_path: "Cargo.toml".into(),
            dependencies: vec![dependency],
            description: None,
            license: None,
            readme: None,
        }]
    }

    fn problems(name: &str, on: &str, kind: Option<&str>) -> usize {
        let mut problems = Vec::new();
        check(&package(name, on, kind), &mut problems);
        problems.len()
    }

    #[test]
    fn arrows_up_and_sideways_are_found() {
        assert_eq!(problems("mpi-p2p", "mpi-btl", None), 0);
        assert_eq!(problems("mpi-btl", "mpi-p2p", None), 1);
        assert_eq!(problems("mpi-p2p", "mpi-p2p", None), 1);
        assert_eq!(problems("unheard-of", "mpi-btl", None), 1);
    }

    #[test]
    fn backends_are_for_the_facade_and_for_tests() {
        assert_eq!(problems("mpi", "mpi-btl-shm", None), 0);
        assert_eq!(problems("mpi-p2p", "mpi-btl-sim", Some("dev")), 0);
        assert_eq!(problems("mpi-comm", "mpi-btl-tcp", None), 1);
    }

    #[test]
    fn the_launcher_and_the_pure_crates_stay_clean() {
        assert_eq!(problems("mpiexec", "mpi-pmi", None), 0);
        assert_eq!(problems("mpiexec", "mpi-p2p", None), 1);
        assert_eq!(problems("mpi-wire", "nix", None), 1);
    }
}
