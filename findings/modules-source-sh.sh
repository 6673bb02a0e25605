#!/usr/bin/env bash
# What: a module file that has a shell script read (`source-sh`, `source_sh`); Debian environment-modules 5.2.0-1, lmod 8.6.19-1.
# Guess: both take `source-sh` in a file that begins with #%Module; what the script exports is set as it is; a script
#   that fails has the module not loaded.
# Happens: Environment Modules loads the module where the script returns 1: status 0, not a word, and what the script says on
#   standard error is lost; what it exported until then is set. A `$` in a value gets a backslash before it. Lmod does not
#   know `source-sh` in a module file of Tcl; its source_sh in Lua keeps the value and refuses the module.
# Who meets it: whoever wraps a vendor's setvars.sh or a program's `env` in a module: it is loaded, and does half or nothing.
# Instead: in Environment Modules, have the script set a variable at its end, and `break` where it is not there ([getenv NAME]).
#   In Lmod: a module file of Lua.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
chmod 755 "$T"; cd "$T"
get() { # folder, packages
    mkdir -p "$T/$1"; (cd "$T/$1"; apt-get download -q "${@:2}" >/dev/null 2>&1; for deb in *.deb; do dpkg -x "$deb" .; done)
}
get lmod lmod=8.6.19-1 lua5.3 lua-posix lua-filesystem lua-json lua-lpeg lua-term lua-bit32 tcl8.6 libtcl8.6 tcl
get modules environment-modules=5.2.0-1 tcl8.6 libtcl8.6 tcl
laid_over() { # folder, command
    unshare -rm sh -c 'mount -t overlay overlay -o lowerdir="$1/usr:/usr" /usr; shift; exec "$@"' sh "$@"
}
mkdir -p tree/tcl tree/lua
# shellcheck disable=SC2016
printf 'export VALUE='"'"'a $b'"'"'\n' >good
printf 'export VALUE=a\necho no such licence >&2\nreturn 1\n' >bad
for name in good bad; do
    printf '#%%Module1.0\nsource-sh bash %s\n' "$T/$name" >tree/tcl/$name
    printf 'source_sh("bash", "%s")\n' "$T/$name" >tree/lua/$name.lua
done
cat >load <<'P'
code=$("${@:2}" bash load "$1" 2>words) || true
eval "$code" 2>/dev/null; status=$?
case $(tr -s '\n ' ' ' <words) in *'no such licence'*) says='the script'\''s words' ;; *'invalid command name'*) says='invalid command name' ;; *) says=nothing ;; esac
echo "$1: status $status, VALUE <${VALUE-}>, says $says, loaded <${LOADEDMODULES-}>"
P
environment=(env -i HOME="$T" PATH=/usr/bin:/bin MODULEPATH="$T/tree")
{
    echo "Environment Modules"
    for name in tcl/good tcl/bad; do laid_over "$T/modules" "${environment[@]}" bash ./load $name tclsh8.6 /usr/lib/x86_64-linux-gnu/modulecmd.tcl; done
    echo "Lmod"
    for name in tcl/good lua/good lua/bad; do laid_over "$T/lmod" "${environment[@]}" bash ./load $name lua5.3 /usr/share/lmod/lmod/libexec/lmod; done
} | tee out
diff - out <<'P'
Environment Modules
tcl/good: status 0, VALUE <a \$b>, says nothing, loaded <tcl/good>
tcl/bad: status 0, VALUE <a>, says nothing, loaded <tcl/bad>
Lmod
tcl/good: status 1, VALUE <>, says invalid command name, loaded <>
lua/good: status 0, VALUE <a $b>, says nothing, loaded <lua/good>
lua/bad: status 1, VALUE <>, says the script's words, loaded <>
P
echo "as observed: a script that fails is a module that is loaded, by one of the two"
