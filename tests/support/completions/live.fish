complete -c windrow -n "__fish_windrow_using_subcommand hold" -f -a "(windrow completion files 2>/dev/null)"
complete -c windrow -n "__fish_windrow_using_subcommand release" -f -a "(windrow completion files 2>/dev/null)"
complete -c windrow -n "__fish_windrow_using_subcommand why" -f -a "(windrow completion words 2>/dev/null)"
complete -c windrow -n "__fish_windrow_using_subcommand wait" -l for -x -a "ready staged (windrow completion files 2>/dev/null | string replace -r '^' released=) (windrow completion files 2>/dev/null | string replace -r '^' applied=)"
