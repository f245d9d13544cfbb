_windrow_names() {
    local -a names
    names=(${(f)"$(windrow completion $1 2>/dev/null)"})
    compadd "${@:2}" -a names
}
_windrow_files() {
    _windrow_names files "$@"
}
_windrow_words() {
    _windrow_names words "$@"
}
_windrow_states() {
    if compset -P '(released|applied)='; then
        _windrow_names files "$@"
    else
        compadd ready staged
        compadd -S '' released= applied=
    fi
}
