//! Environment modules: `module load wiglaf/openmpi` does what `eval "$(wiglaf env openmpi)"` does, and `module unload`
//! takes it back.
//!
//! Each of the two programs that read module files has its own: Environment Modules' Tcl, which has bash read a script
//! and notes what changes, and Lmod's Lua, for which that script prints what is to change.

use std::path::Path;

use wiglaf_base::shell::quoted;

/// What the first part of a module's name is, what that means, and what `wiglaf env` takes for it.
const NETWORKS: [[&str; 3]; 3] = [
    ["wiglaf", "over Wiglaf", "--transport wiglaf"],
    [
        "wiglaf-multicast",
        "over Wiglaf, collectives as frames to all hosts",
        "--transport wiglaf --collectives multicast",
    ],
    ["tcp", "over TCP", "--transport tcp"],
];

/// The second part, what it is called, and what starts its programs.
const MPIS: [[&str; 3]; 2] =
    [["openmpi", "Open MPI", "mpirun"], ["mpich", "MPICH", "srun, mpiexec"]];

/// What reads module files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    /// Environment Modules.
    Tcl,
    /// Lmod.
    Lmod,
}

impl System {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Tcl, Self::Lmod];

    /// What it is called in names of folders.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcl => "tcl",
            Self::Lmod => "lmod",
        }
    }

    /// The folder that Debian's package of it has for an administrator's files.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Tcl => "/etc/environment-modules/modules",
            Self::Lmod => "/etc/lmod/modules",
        }
    }

    /// Module files, by their paths in such a folder, for where [`script`] and Wiglaf's program are.
    pub(crate) fn files(self, script: &Path, program: &Path) -> Vec<(String, String)> {
        let (script, program) = (script.display(), program.display());
        let file = |[network, over, options]: [&str; 3], [mpi, called, by]: [&str; 3]| {
            let says = format!("{called} {over}: {by}");
            match self {
                Self::Tcl => (
                    format!("{network}/{mpi}"),
                    format!(
                        "#%Module1.0\n# Written by Wiglaf.\nmodule-whatis {{{says}}}\nconflict {conflicts}\n\
                         source-sh bash {{{script}}} {network} {mpi}\n\
                         # source-sh says nothing of a script that fails.\n\
                         if {{[module-info mode load] && [getenv WIGLAF_MODULE] ne \"{network}/{mpi}\"}} {{\n    \
                         catch {{exec {{{program}}} env {mpi} {options}}} why\n    \
                         puts stderr [lindex [split $why \\n] 0]\n    break\n}}\n",
                        conflicts = NETWORKS.map(|[name, ..]| name).join(" ")
                    ),
                ),
                Self::Lmod => (
                    format!("{network}/{mpi}.lua"),
                    LUA.replace("@says@", &says)
                        .replace(
                            "@conflicts@",
                            &NETWORKS.map(|[name, ..]| format!("\"{name}\"")).join(", "),
                        )
                        .replace("@script@", &format!("bash '{script}' {network} {mpi} print"))
                        .replace("@env@", &format!("'{program}' env {mpi} {options}")),
                ),
            }
        };
        NETWORKS.into_iter().flat_map(|network| MPIS.map(|mpi| file(network, mpi))).collect()
    }
}

/// Lmod's. Not `source_sh`: what it runs has an empty `LD_LIBRARY_PATH`, and its user's would be lost.
const LUA: &str = r#"-- Written by Wiglaf.
whatis("@says@")
conflict(@conflicts@)
-- What unloading takes back; Lmod writes no variable with a line break as a shell could read it.
local set = os.getenv("WIGLAF_MODULE_SET") or ""
if (mode() == "load") then
    set = capture("@script@ 2>/dev/null")
    if (set == "") then
        LmodError(capture("@env@ 2>&1"))
    end
end
if (mode() == "load" or mode() == "unload") then
    for name, value in set:gmatch("([%w_]+)=(.-)@@") do
        if (name == "PATH" or name == "LD_LIBRARY_PATH" or name == "LD_PRELOAD") then
            prepend_path(name, value)
        else
            setenv(name, value)
        end
    end
    setenv("WIGLAF_MODULE_SET", set)
end
"#;

/// What bash reads for a module: `$1` is the network, `$2` the MPI. It sets the variables, or prints them, of
/// lists only what comes before those that were there.
pub(crate) fn script(program: &Path) -> String {
    let options = |[name, _, options]: [&str; 3]| format!("{name}) options='{options}' ;;\n");
    SCRIPT
        .replace("@program@", &quoted(&program.display().to_string()))
        .replace("@networks@", &NETWORKS.map(options).concat())
}

const SCRIPT: &str = r#"# Written by Wiglaf: modules have bash read this, or run it.
# Lmod empties these for itself; an empty one is not handed on.
for name in LD_LIBRARY_PATH LD_PRELOAD TMPDIR; do [ -n "${!name}" ] || unset "$name"; done
case $1 in
@networks@esac
if [ "$3" = print ]; then
    path=$PATH libraries=$LD_LIBRARY_PATH preloaded=$LD_PRELOAD
    said=$(@program@ env "$2" $options) || exit 1
    eval "$said"
    for name in $(printf '%s\n' "$said" | sed -n 's/^export \([A-Za-z0-9_]*\)=.*/\1/p'); do
        value=${!name}
        case $name in
        PATH) value=${value%":$path"} ;;
        LD_LIBRARY_PATH) value=${value%":$libraries"} ;;
        LD_PRELOAD) value=${value%":$preloaded"} ;;
        esac
        printf '%s=%s@@' "$name" "$value"
    done
    printf 'WIGLAF_MODULE=%s@@' "$1/$2"
    exit 0
fi
unset name
said=$(@program@ env "$2" $options) || return 1
eval "$said"
unset said options
export WIGLAF_MODULE="$1/$2"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_names_its_network_and_its_mpi() {
        for system in System::ALL {
            let files = system.files(Path::new("/s"), Path::new("/usr/bin/wiglaf"));
            assert_eq!(files.len(), 6);
            for (name, text) in files {
                let (network, mpi) = name.trim_end_matches(".lua").split_once('/').unwrap();
                assert!(text.contains(&format!("{network} {mpi}")), "{name}: {text}");
            }
        }
    }
}
