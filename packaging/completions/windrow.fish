# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_windrow_global_optspecs
    string join \n root= h/help V/version
end

function __fish_windrow_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_windrow_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_windrow_using_subcommand
    set -l cmd (__fish_windrow_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c windrow -n "__fish_windrow_needs_command" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_needs_command" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_needs_command" -s V -l version -d 'Print version'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "installer" -d 'Install Windrow on the node whose root is mounted here'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "check" -d 'Validate a node\'s configuration and simulate its boot'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "plan" -d 'Show the order in which manifests are applied, and why'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "preflight" -d 'Check CPU, memory, disks and network before installing'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "sandbox" -d 'Boot a simulated node with the real daemon'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "status" -d 'Show the node\'s state and its causes'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "why" -d 'Explain a held file, object, probe, code or state'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "wait" -d 'Wait until the node or a file reaches a state'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "console" -d 'Show the node\'s state full-screen, for tty1'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "hold" -d 'Hold manifests, so that RKE2 does not apply them'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "release" -d 'Release held manifests, so that RKE2 applies them'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "add" -d 'Add manifests to a running node without a race'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "gates" -d 'Check, try and roll back feature gates'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "diagnose" -d 'Find known problems, and show evidence and fix'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "repair" -d 'Fix a problem that `windrow diagnose` found'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "timeline" -d 'Show where the boot spent its time'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "report" -d 'Collect the node\'s state in one archive, without secrets'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "upgrade-check" -d 'Check whether a Harvester upgrade would start and finish'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "drain-check" -d 'Check whether a drain of a node would finish'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "rack" -d 'Show many nodes on one page'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "config" -d 'Show and check the configuration'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "knowledge" -d 'Show or learn what programs provide, and after how long'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "replay" -d 'Replay recorded decisions, and compare the results'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "cleanup" -d 'Remove Windrow\'s changes from this node and the cluster'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "completion" -d 'Print completions for a shell'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "version" -d 'Print the version of this program'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand installer" -l host -d 'The node\'s root' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand installer" -l image -d 'The image\'s directory with `install` and `tree`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand installer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand check" -l node -d 'One of several nodes of a cluster with its configuration; repeat it for each file of the node' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l platform -d 'The platform of the manifests, if neither a Harvester configuration nor --harvester names it' -r -f -a "harvester\t''
rke2\t''"
complete -c windrow -n "__fish_windrow_using_subcommand check" -l harvester -d 'Harvester\'s version [default: the one of the ISO that the inputs name, or else the newest one that Windrow models, if a Harvester configuration is among the inputs]' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l rke2 -d 'RKE2\'s version. It decides which objects kube-apiserver accepts, which kinds RKE2 provides, which feature gates are valid, and whether RKE2 rewrites HelmCharts (up to 1.35) [default: the version of the definition or of --harvester]' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l hardware -d 'The server\'s hardware class, as in `windrow preflight` and `windrow knowledge show` (16cpu-64g-nvme), or the saved output of `windrow preflight -o json`: times that Windrow learned on this class take precedence' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l reboot -d 'Restart a node (default: the first one) this long after power-on; can be repeated' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l rules -d 'A directory or file with additional rule packs or knowledge; can be repeated' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -l images -d 'A list of the images of an air-gapped bundle, one image per line; can be repeated. Images that are in none of these lists are findings' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -l fix -d 'Write a copy of all files into this directory, with names that RKE2 can use and applies sooner' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -l runs -d 'Number of boots to simulate, each with different timing [default: 100; only 10 if an error in the files has decided the verdict, unless --details is set]' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l timeout -d 'Stop simulating after this long, and report the results so far' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''
sarif\t'For code hosts that show findings next to the source'
junit\t'For CI systems that show test reports'
github\t'Annotations of GitHub Actions'
html\t'A single page for your browser'"
complete -c windrow -n "__fish_windrow_using_subcommand check" -l write -d 'Also write the report to a file in this format; can be repeated' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l fail-on -d 'The least severe verdict that makes the command fail' -r -f -a "error\t'Fail only on errors'
unknown\t'Fail also if something could not be judged'
warning\t'Fail also on warnings'"
complete -c windrow -n "__fish_windrow_using_subcommand check" -l accept -d 'A file with accepted findings and their reasons [default: .windrow-accept.yaml in the directory of the first input]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -l quick -d 'Simulate no boot: only check the configuration, the order of the files and the feature gates'
complete -c windrow -n "__fish_windrow_using_subcommand check" -l details -d 'Show the whole boot: files, timeline, and the results with other versions. With -o json and yaml, the document of the simulation'
complete -c windrow -n "__fish_windrow_using_subcommand check" -s q -l quiet -d 'Print only errors: the exit code has the verdict'
complete -c windrow -n "__fish_windrow_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand plan" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''
dot\t''
mermaid\t''
svg\t'A picture'"
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l platform -d 'The platform of the manifests, if neither a Harvester configuration nor --harvester names it' -r -f -a "harvester\t''
rke2\t''"
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l harvester -d 'Harvester\'s version [default: the one of the ISO that the inputs name, or else the newest one that Windrow models, if a Harvester configuration is among the inputs]' -r
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l rke2 -d 'RKE2\'s version. It decides which objects kube-apiserver accepts, which kinds RKE2 provides, which feature gates are valid, and whether RKE2 rewrites HelmCharts (up to 1.35) [default: the version of the definition or of --harvester]' -r
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l hardware -d 'The server\'s hardware class, as in `windrow preflight` and `windrow knowledge show` (16cpu-64g-nvme), or the saved output of `windrow preflight -o json`: times that Windrow learned on this class take precedence' -r
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l rules -d 'A directory or file with additional rule packs or knowledge; can be repeated' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand plan" -s q -l quiet -d 'Print only errors: the exit code has the verdict'
complete -c windrow -n "__fish_windrow_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l platform -d 'The platform [default: the platform of the version, of the configuration, of the --from file, or of this node]' -r -f -a "harvester\t''
rke2\t''"
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l harvester -d 'Harvester\'s version [default: the version of the ISO that the configuration names, then the version in the --from file, then the image\'s, then the newest known one]' -r
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l role -d 'The role [default: the role in the configuration or in the --from file]' -r -f -a "server\t''
worker\t''
witness\t''"
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l disk-test -d 'Measure writes in this directory, on the disk that etcd will use' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l interface -d 'The interface for the check of free addresses [default: the first one of the configuration]' -r
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l from -d 'Read saved data instead of this host: the output of `windrow preflight -o json`, or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l production -d 'Require the published values for production, or the recommended ones'
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l offline -d 'Send nothing to the network'
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -s q -l quiet -d 'Print only errors: the exit code has the verdict'
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand sandbox" -l speed -d 'Speed of the node\'s clock, as a multiple of real time' -r
complete -c windrow -n "__fish_windrow_using_subcommand sandbox" -l config -d 'Harvester configuration of the node, or `-` [default: a configuration with a VM and a preset storage network]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand sandbox" -l pause-at -d 'Stop the clock at this phase, or once this file waits for its dependencies, until you press Enter (can be repeated). Windrow keeps answering' -r
complete -c windrow -n "__fish_windrow_using_subcommand sandbox" -l seed -d 'Seed of the simulated timing: each seed gives another course of events' -r
complete -c windrow -n "__fish_windrow_using_subcommand sandbox" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand status" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand status" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand status" -l watch -d 'Print a line with time and host for every change, until interrupted; with -v the whole state at each change'
complete -c windrow -n "__fish_windrow_using_subcommand status" -s v -l verbose -d 'Show everything, including applied files and passing probes'
complete -c windrow -n "__fish_windrow_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand why" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand why" -l from -d 'Read saved data instead of this node: a status document (from any node and time), or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand why" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand why" -s v -l verbose -d 'Show everything: the rule behind each requirement, its state or expression, and every piece of evidence'
complete -c windrow -n "__fish_windrow_using_subcommand why" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand wait" -l for -d 'The state: ready (or degraded), staged, released=FILE or applied=FILE. FILE must exist when the command starts' -r
complete -c windrow -n "__fish_windrow_using_subcommand wait" -l timeout -d 'Maximum time to wait, for example 90s, 15m or 2h [default: no limit]' -r
complete -c windrow -n "__fish_windrow_using_subcommand wait" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand wait" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand console" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand console" -l once -d 'Print one line of at most 65 characters and exit'
complete -c windrow -n "__fish_windrow_using_subcommand console" -l stay -d 'Ignore the key q, because this terminal shows nothing else'
complete -c windrow -n "__fish_windrow_using_subcommand console" -l unit -d 'Print the unit of the terminal with Harvester\'s own console, and exit'
complete -c windrow -n "__fish_windrow_using_subcommand console" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand hold" -l reason -d 'The reason; Windrow records it with your name and the time' -r
complete -c windrow -n "__fish_windrow_using_subcommand hold" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand hold" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand release" -l reason -d 'The reason; Windrow records it with your name and the time' -r
complete -c windrow -n "__fish_windrow_using_subcommand release" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand release" -l all -d 'Release everything that Windrow holds'
complete -c windrow -n "__fish_windrow_using_subcommand release" -l failsafe -d 'Lift all holds that may be lifted without the daemon; works without the daemon and without a configuration'
complete -c windrow -n "__fish_windrow_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand add" -l name -d 'The file name for standard input' -r
complete -c windrow -n "__fish_windrow_using_subcommand add" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand add" -l force -d 'Also add files that RKE2 would refuse'
complete -c windrow -n "__fish_windrow_using_subcommand add" -l replace -d 'Replace files of the same name with different content'
complete -c windrow -n "__fish_windrow_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check apply rollback settle help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check apply rollback settle help" -f -a "check" -d 'Check gates and arguments, and show the source and the effect of each gate'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check apply rollback settle help" -f -a "apply" -d 'Try the configured gates on this running server'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check apply rollback settle help" -f -a "rollback" -d 'Undo the last change of gates, or end the running trial'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check apply rollback settle help" -f -a "settle" -d 'Remove the gates from Windrow\'s drop-in that the starting RKE2 would refuse (systemd runs this before each start of RKE2)'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check apply rollback settle help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -l harvester -d 'Harvester\'s version, if it decides RKE2\'s' -r
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -l rke2 -d 'RKE2\'s version: the one that will start, for example v1.35 or v1.35.6+rke2r1 [default: detected]' -r
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Print only errors: the exit code has the verdict'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from apply" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from apply" -l force -d 'Also try gates that the check refuses: the trial shows whether the check was right. Ignores an upgrade in progress, other servers that are not ready, and failed trials on other servers'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from apply" -s y -l yes -d 'Do not ask for confirmation'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from apply" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from rollback" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from rollback" -s y -l yes -d 'Do not ask for confirmation'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from rollback" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from settle" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from settle" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check gates and arguments, and show the source and the effect of each gate'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "apply" -d 'Try the configured gates on this running server'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "rollback" -d 'Undo the last change of gates, or end the running trial'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "settle" -d 'Remove the gates from Windrow\'s drop-in that the starting RKE2 would refuse (systemd runs this before each start of RKE2)'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -l from -d 'Read saved data instead of the cluster: an archive of `windrow report`, a support bundle of Harvester, a file or directory with lists from `kubectl get KIND -A -o yaml`, or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -l kubeconfig -d 'Kubeconfig with admin access [default: $KUBECONFIG, then RKE2\'s own, then ~/.kube/config]. With --root, Windrow only contacts the cluster if you set this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -l context -d 'The context of the kubeconfig [default: its current one]' -r
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -s q -l quiet -d 'Print only errors: the exit code has the verdict'
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l undo -d 'Undo this repair (default: the newest): restore all values that nothing else has changed since' -r
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l kubeconfig -d 'Kubeconfig with admin access [default: $KUBECONFIG, then RKE2\'s own, then ~/.kube/config]. With --root, Windrow only contacts the cluster if you set this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l context -d 'The context of the kubeconfig [default: its current one]' -r
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l dry-run -d 'Only show the exact requests, and whether kube-apiserver would accept those that it can dry-run'
complete -c windrow -n "__fish_windrow_using_subcommand repair" -s y -l yes -d 'Do not ask for confirmation'
complete -c windrow -n "__fish_windrow_using_subcommand repair" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand timeline" -l from -d 'Read saved data instead of this node: a boot log, an archive of `windrow report`, or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand timeline" -s b -l boot -d 'The boot, as in journalctl: 0 is the last one, -1 the one before it, 1 the first one' -r
complete -c windrow -n "__fish_windrow_using_subcommand timeline" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''
svg\t'A picture'"
complete -c windrow -n "__fish_windrow_using_subcommand timeline" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand timeline" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand report" -l output-file -d 'The file to write: an archive; `-` is standard output [default: windrow-report-HOST-TIME.tar.gz here]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand report" -l kubeconfig -d 'The cluster\'s kubeconfig [default: the node\'s own]. With --root, Windrow only contacts the cluster if you set this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand report" -l timeout -d 'Maximum time to collect, at most 1h; the archive omits anything that takes longer. A number without a unit is in seconds' -r
complete -c windrow -n "__fish_windrow_using_subcommand report" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand report" -l with-manifests -d 'Also include the manifests, not only a list of their objects; Secrets without their data'
complete -c windrow -n "__fish_windrow_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l harvester -d 'Harvester\'s version: the release to upgrade to; without it, Windrow skips the checks that depend on it' -r
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l from -d 'Read saved data instead of the cluster: an archive of `windrow report`, a support bundle of Harvester, a file or directory with lists from `kubectl get KIND -A -o yaml`, or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l kubeconfig -d 'Kubeconfig with admin access [default: $KUBECONFIG, then RKE2\'s own, then ~/.kube/config]. With --root, Windrow only contacts the cluster if you set this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l context -d 'The context of the kubeconfig [default: its current one]' -r
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -s q -l quiet -d 'Print only errors: the exit code has the verdict'
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l from -d 'Read saved data instead of the cluster: an archive of `windrow report`, a support bundle of Harvester, a file or directory with lists from `kubectl get KIND -A -o yaml`, or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l kubeconfig -d 'Kubeconfig with admin access [default: $KUBECONFIG, then RKE2\'s own, then ~/.kube/config]. With --root, Windrow only contacts the cluster if you set this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l context -d 'The context of the kubeconfig [default: its current one]' -r
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l all -d 'Check every node, each as if you drained only this one'
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -s q -l quiet -d 'Print only errors: the exit code has the verdict'
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l listen -d 'Accept events (POST /events) and serve the page here: over HTTP on loopback, otherwise over HTTPS and with a token' -r
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l nodes -d 'The expected nodes: a list in YAML or CSV with name, mac, serial, host, role, rack, url, fingerprint; or Inventory objects of Harvester\'s Seeder' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l ask -d 'Poll this status server (https://node:9346/status); can be repeated' -r
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l ask-token-file -d 'The token of the nodes\' status servers' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l ca-file -d 'CA certificates for status servers without a fingerprint' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l ask-announced -d 'Also poll the status servers that nodes announce in their events, but only on the sending host' -r -f -a "known\t'Servers whose certificate is in the list of expected nodes'
any\t'All servers: every host that may send events also gets the token of the nodes\' status servers'"
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l kubeconfig -d 'Watch the Nodes of this cluster: condition windrow.dev/BootstrapIncomplete and annotation windrow.dev/bootstrap' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l token-file -d 'The token that clients must send: as a bearer token, or as the password in a browser' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l tls-cert-file -d 'Serve over HTTPS with this certificate (PEM), also on loopback; reloaded when it changes [default: a self-signed certificate, kept in --state]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l tls-key-file -d 'The certificate\'s key (PEM)' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l fingerprint -d 'With --once and --for: the SHA-256 of the certificate of a rack on another host' -r
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l state -d 'Keep the received state in this directory, across restarts' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -s o -l output -d 'Output format, with --once' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l for -d 'Exit when all expected nodes are Ready, or after --timeout' -r -f -a "ready\t''"
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l timeout -d 'Maximum time to wait, for example 90s, 15m or 2h [default: no limit]' -r
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l plain-http -d 'Serve over HTTP on any address: for an HTTPS proxy, or a network where no one else can listen'
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l once -d 'Print the nodes and exit: from the rack that listens at this address, otherwise after polling once'
complete -c windrow -n "__fish_windrow_using_subcommand rack" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "show" -d 'Show the effective configuration'
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "check" -d 'Check settings and rules, and list all errors'
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from show" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from show" -l origin -d 'Show the file and line that set each value'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from check" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show the effective configuration'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check settings and rules, and list all errors'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from learn show help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from learn show help" -f -a "learn" -d 'Learn providers and durations from recorded boots'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from learn show help" -f -a "show" -d 'Show everything that is known'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from learn show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from learn" -l output-file -d 'The file to write: the learned knowledge [default: standard output]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from learn" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from show" -l rules -d 'A directory or file with additional rule packs or knowledge; can be repeated' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from show" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from help" -f -a "learn" -d 'Learn providers and durations from recorded boots'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show everything that is known'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l number -d 'Only this one of several recordings in the file, counted from 1; each start of the daemon begins a new one' -r
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l until -d 'Stop before the first decision after this time or this duration since the recording began (`2026-01-01T00:05:00Z`, `4m30s`), and show the state' -r
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l why -d 'Explain this file or object in its state at the end, or at the time of --until' -r
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l rules -d 'A directory or file with additional rule packs; can be repeated. Shows the holds and releases with them; a pack replaces the recorded pack of the same name' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l harvester -d 'Harvester\'s version: simulate the recorded files with this version instead of replaying the decisions' -r
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l rke2 -d 'RKE2\'s version: the same for the files of a node without Harvester' -r
complete -c windrow -n "__fish_windrow_using_subcommand replay" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l step -d 'Stop after each decision until you press Enter (q quits)'
complete -c windrow -n "__fish_windrow_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand cleanup" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand cleanup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand completion" -l root -d 'Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand completion" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand version" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "installer" -d 'Install Windrow on the node whose root is mounted here'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "check" -d 'Validate a node\'s configuration and simulate its boot'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "plan" -d 'Show the order in which manifests are applied, and why'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "preflight" -d 'Check CPU, memory, disks and network before installing'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "sandbox" -d 'Boot a simulated node with the real daemon'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "status" -d 'Show the node\'s state and its causes'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "why" -d 'Explain a held file, object, probe, code or state'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "wait" -d 'Wait until the node or a file reaches a state'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "console" -d 'Show the node\'s state full-screen, for tty1'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "hold" -d 'Hold manifests, so that RKE2 does not apply them'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "release" -d 'Release held manifests, so that RKE2 applies them'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "add" -d 'Add manifests to a running node without a race'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "gates" -d 'Check, try and roll back feature gates'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "diagnose" -d 'Find known problems, and show evidence and fix'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "repair" -d 'Fix a problem that `windrow diagnose` found'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "timeline" -d 'Show where the boot spent its time'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "report" -d 'Collect the node\'s state in one archive, without secrets'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "upgrade-check" -d 'Check whether a Harvester upgrade would start and finish'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "drain-check" -d 'Check whether a drain of a node would finish'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "rack" -d 'Show many nodes on one page'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "config" -d 'Show and check the configuration'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "knowledge" -d 'Show or learn what programs provide, and after how long'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "replay" -d 'Replay recorded decisions, and compare the results'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "cleanup" -d 'Remove Windrow\'s changes from this node and the cluster'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "completion" -d 'Print completions for a shell'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "version" -d 'Print the version of this program'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from installer check plan preflight sandbox status why wait console hold release add gates diagnose repair timeline report upgrade-check drain-check rack config knowledge replay cleanup completion version help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "check" -d 'Check gates and arguments, and show the source and the effect of each gate'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "apply" -d 'Try the configured gates on this running server'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "rollback" -d 'Undo the last change of gates, or end the running trial'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "settle" -d 'Remove the gates from Windrow\'s drop-in that the starting RKE2 would refuse (systemd runs this before each start of RKE2)'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "show" -d 'Show the effective configuration'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "check" -d 'Check settings and rules, and list all errors'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from knowledge" -f -a "learn" -d 'Learn providers and durations from recorded boots'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from knowledge" -f -a "show" -d 'Show everything that is known'
complete -c windrow -n "__fish_windrow_using_subcommand hold" -f -a "(windrow completion files 2>/dev/null)"
complete -c windrow -n "__fish_windrow_using_subcommand release" -f -a "(windrow completion files 2>/dev/null)"
complete -c windrow -n "__fish_windrow_using_subcommand why" -f -a "(windrow completion words 2>/dev/null)"
complete -c windrow -n "__fish_windrow_using_subcommand wait" -l for -x -a "ready staged (windrow completion files 2>/dev/null | string replace -r '^' released=) (windrow completion files 2>/dev/null | string replace -r '^' applied=)"
