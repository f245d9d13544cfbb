# Names from the node's state, in addition to the command line.
_windrow_live() {
    _windrow "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" verb= root= names= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
            --root) root="${COMP_WORDS[i+1]}" ;;
            hold | release | why | wait) [[ -n "$verb" ]] || verb="${COMP_WORDS[i]}" ;;
        esac
    done
    [[ "$cur" == -* || "$before" == --root || "$before" == --reason || "$before" == --from ]] && return 0
    case "$verb" in
        hold | release) names="$(windrow completion files ${root:+--root "$root"} 2>/dev/null)" ;;
        why) names="$(windrow completion words ${root:+--root "$root"} 2>/dev/null)" ;;
        wait)
            if [[ "$before" == "=" || "$cur" == "=" ]]; then
                names="$(windrow completion files ${root:+--root "$root"} 2>/dev/null)"
                cur="${cur#=}"
            elif [[ "$before" == --for ]]; then
                names=$'ready\nstaged\nreleased=\napplied='
            fi
            ;;
    esac
    if [[ -n "$names" ]]; then
        local IFS=$'\n' name
        COMPREPLY=()
        for name in $names; do
            [[ "$name" == "$cur"* ]] && COMPREPLY+=("$name")
        done
    fi
    return 0
}
