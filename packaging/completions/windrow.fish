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

complete -c windrow -n "__fish_windrow_needs_command" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_needs_command" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_needs_command" -s V -l version -d 'Print version'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "run" -d 'Run the daemon'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "check" -d 'Check everything that can be known before the image is burned, and say one verdict'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "plan" -d 'Show offline what would be held, in which order, and why'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "preflight" -d 'Can this machine become the node that is wanted? Its processors, memory, disks, links and what it needs around it, before anything is installed'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "rehearse" -d 'Rehearse a boot in simulated time, with Windrow and without it'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "status" -d 'Show the node\'s state and its causes'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "why" -d 'Show what a held file or object waits for, down to the root, what a probe found, or what another word means'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "wait" -d 'Wait until the node or a file has reached a state'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "console" -d 'Show the node\'s state full-screen, for tty1'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "stage" -d 'Add manifests to a running node without a race'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "hold" -d 'Hold files by hand: RKE2 does not apply them until they are released'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "release" -d 'Release held files by hand: RKE2 applies them at its next pass'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "gates" -d 'Check feature gates before they keep a component from starting, and show what is set'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "drain-check" -d 'Would a drain of a node finish? Which pod, which budget, and why no other node takes a replacement'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "upgrade-check" -d 'Would Harvester let an upgrade begin, and would it end? Every check of its preflight at once, and what it does not look at'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "vip-check" -d 'Does another machine use the VIP\'s address? Asked by ARP or, for IPv6, by neighbour discovery, which takes the right CAP_NET_RAW'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "diagnose" -d 'Recognise known incidents, with the evidence, the proof and the cure'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "repair" -d 'Cure an incident that `windrow diagnose` recognised; asks first, and saves what it changes'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "config" -d 'Show and check the configuration'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "replay" -d 'Make recorded decisions again, and compare'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "blame" -d 'Show where the time of a boot went, and what decided when it ended'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "learn" -d 'Learn from recorded boots who brings what, and how long things take'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "knowledge" -d 'Show who brings what and how long things take, as it is known, and from where'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "rack" -d 'Show many nodes on one page: from their webhooks, their status servers, and Kubernetes'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "cleanup" -d 'Remove what Windrow put on this node and into the cluster: its holds, its feature gates, its condition and annotation on the Node, and its Leases if no other node uses them. Holds that you made (`windrow hold`) stay. For the removal of Windrow; the packages run it automatically'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "report" -d 'Collect the node\'s state and its causes, without secrets, in one archive to send'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "installer" -d 'Lay Windrow onto the node whose root is mounted here; for the installer image'
complete -c windrow -n "__fish_windrow_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand run" -l sandbox -d 'Run over a simulated node in this empty directory; nothing else is needed or touched [without DIR: a new directory among the temporary ones]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand run" -l speed -d 'How much faster than real time the sandbox runs' -r
complete -c windrow -n "__fish_windrow_using_subcommand run" -l config -d 'Harvester configuration with which the sandbox\'s node is installed [default: one with a virtual machine and a preset storage network]; or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand run" -l pause-at -d 'Stop the sandbox\'s clock at this phase, or once this file waits for what it needs, until Enter is pressed (can be repeated): Windrow goes on answering' -r
complete -c windrow -n "__fish_windrow_using_subcommand run" -l seed -d 'Which of the possible courses of events the sandbox takes' -r
complete -c windrow -n "__fish_windrow_using_subcommand run" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand run" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand check" -l node -d 'One of several nodes of a cluster and its configuration; once for each file of it' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l harvester -d 'Harvester\'s version [default: the newest that is modelled, where a Harvester configuration is given]' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l rke2 -d 'RKE2\'s version: it decides what kube-apiserver accepts and which kinds come with it, feature gates are checked against it, and up to 1.35 it rewrites HelmCharts [default: that of the definition or of --harvester]' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l hardware -d 'The machine\'s class of hardware, as `windrow preflight` and `windrow knowledge show` name it (16cpu-64g-nvme), or what `windrow preflight -o json` printed on it: times that were learned on such machines come before those of all' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l reboot -d 'Restart a node (the first one, or the one that is named) so long after power-on; can be repeated' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l rules -d 'A directory or file with further rule packs or knowledge; can be repeated' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -l images -d 'A list of the images of an air-gapped bundle, one image a line: every image that is in no list is a finding; can be repeated' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -l fix -d 'Write a corrected copy of all files into this directory, where correcting is mechanical' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -l seeds -d 'By how many seeds: each is one possible course of events' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l timeout -d 'End the rehearsal after so long, whatever is played by then' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''
sarif\t'For code hosts that show findings beside the source'
junit\t'For CI systems that show test reports'
github\t'Annotations of GitHub Actions'
html\t'A page of its own, to be looked at in a browser'"
complete -c windrow -n "__fish_windrow_using_subcommand check" -l write -d 'Also write the report in a format into a file; can be repeated' -r
complete -c windrow -n "__fish_windrow_using_subcommand check" -l fail-on -d 'What makes the command fail' -r -f -a "error\t'Only what cannot work'
unknown\t'That, and what could not be judged'
warning\t'That, and what is slower or noisier without a change'"
complete -c windrow -n "__fish_windrow_using_subcommand check" -l accept -d 'A file with accepted findings, each with its reason [default: .windrow-accept.yaml beside the first input]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand plan" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''
dot\t''
mermaid\t''
svg\t'A picture'"
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l platform -d 'What the manifests are for; a Harvester configuration and --harvester say so themselves' -r -f -a "harvester\t''
rke2\t''"
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l harvester -d 'Harvester\'s version [default: the newest that is modelled, where a Harvester configuration is given]' -r
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l rke2 -d 'RKE2\'s version: it decides what kube-apiserver accepts and which kinds come with it, feature gates are checked against it, and up to 1.35 it rewrites HelmCharts [default: that of the definition or of --harvester]' -r
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l hardware -d 'The machine\'s class of hardware, as `windrow preflight` and `windrow knowledge show` name it (16cpu-64g-nvme), or what `windrow preflight -o json` printed on it: times that were learned on such machines come before those of all' -r
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l rules -d 'A directory or file with further rule packs or knowledge; can be repeated' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand plan" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l platform -d 'The platform; when not given, that of the configuration, of the machine that was read, or of this node' -r -f -a "harvester\t''
rke2\t''"
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l version -d 'Harvester\'s version or RKE2\'s; when not given, that for which a machine was read, that of the image, or else the newest that is known' -r
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l role -d 'The role; when not given, that of the configuration, or that for which a machine was read' -r -f -a "server\t''
worker\t''
witness\t''"
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l disk-test -d 'Measure writes in this directory, on the disk that etcd will use' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l interface -d 'The link on which to ask whether addresses are free; when not given, the first one of the configuration' -r
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l host -d 'Judge a machine that was read before (`-o json`), and nothing of this one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l production -d 'Hold it against what is published for production, or recommended'
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -l offline -d 'Ask nothing of the network'
complete -c windrow -n "__fish_windrow_using_subcommand preflight" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l node -d 'One of several nodes of a cluster and its configuration; once for each file of it' -r
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l harvester -d 'Harvester\'s version [default: the newest that is modelled, where a Harvester configuration is given]' -r
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l rke2 -d 'RKE2\'s version: it decides what kube-apiserver accepts and which kinds come with it, feature gates are checked against it, and up to 1.35 it rewrites HelmCharts [default: that of the definition or of --harvester]' -r
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l hardware -d 'The machine\'s class of hardware, as `windrow preflight` and `windrow knowledge show` name it (16cpu-64g-nvme), or what `windrow preflight -o json` printed on it: times that were learned on such machines come before those of all' -r
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l reboot -d 'Restart a node (the first one, or the one that is named) so long after power-on; can be repeated' -r
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l rules -d 'A directory or file with further rule packs or knowledge; can be repeated' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l images -d 'A list of the images of an air-gapped bundle, one image a line: every image that is in no list is a finding; can be repeated' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l fix -d 'Write a corrected copy of all files into this directory, where correcting is mechanical' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l seeds -d 'By how many seeds: each is one possible course of events' -r
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l timeout -d 'End the rehearsal after so long, whatever is played by then' -r
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''
html\t'A page of its own, to be looked at in a browser'"
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rehearse" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand status" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand status" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand status" -l watch -d 'Show every change as a line with time and host, until interrupted; with -v the whole state at each change'
complete -c windrow -n "__fish_windrow_using_subcommand status" -s v -l verbose -d 'Show everything: also what is applied and what passes'
complete -c windrow -n "__fish_windrow_using_subcommand status" -l json -d 'Print the status document: the same as `-o json`'
complete -c windrow -n "__fish_windrow_using_subcommand status" -l console -d 'Print one line of at most 65 characters'
complete -c windrow -n "__fish_windrow_using_subcommand status" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand why" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand why" -l status -d 'Explain from this status document, whoever wrote it and whenever, or from `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand why" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand why" -s v -l verbose -d 'Show everything: who asks for what, in which state or by which expression, and every sign'
complete -c windrow -n "__fish_windrow_using_subcommand why" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand wait" -l for -d 'What to wait for: ready (or degraded), staged, released=FILE or applied=FILE. FILE must be there when the command starts' -r
complete -c windrow -n "__fish_windrow_using_subcommand wait" -l timeout -d 'Give up after this long (90s, 15m, 2h); without it, never' -r
complete -c windrow -n "__fish_windrow_using_subcommand wait" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand wait" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand console" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand console" -l once -d 'Print one line of at most 65 characters and end'
complete -c windrow -n "__fish_windrow_using_subcommand console" -l stay -d 'Ignore q: this terminal has nothing else to show'
complete -c windrow -n "__fish_windrow_using_subcommand console" -l unit -d 'Print the unit of the terminal that Harvester\'s own console takes, and end'
complete -c windrow -n "__fish_windrow_using_subcommand console" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand stage" -l name -d 'The name of what comes from standard input' -r
complete -c windrow -n "__fish_windrow_using_subcommand stage" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand stage" -l force -d 'Add even what RKE2 would refuse'
complete -c windrow -n "__fish_windrow_using_subcommand stage" -l replace -d 'Replace files of the same name with different content'
complete -c windrow -n "__fish_windrow_using_subcommand stage" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand hold" -l reason -d 'Why; it is recorded with who and when' -r
complete -c windrow -n "__fish_windrow_using_subcommand hold" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand hold" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand release" -l reason -d 'Why; it is recorded with who and when' -r
complete -c windrow -n "__fish_windrow_using_subcommand release" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand release" -l all -d 'Release everything that Windrow holds'
complete -c windrow -n "__fish_windrow_using_subcommand release" -l failsafe -d 'Lift every hold that may be lifted without the daemon; needs neither it nor a configuration'
complete -c windrow -n "__fish_windrow_using_subcommand release" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check show apply rollback settle help" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check show apply rollback settle help" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check show apply rollback settle help" -f -a "check" -d 'Check whether every component would start; all problems are printed at once'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check show apply rollback settle help" -f -a "show" -d 'Show which gates are set, and where each comes from'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check show apply rollback settle help" -f -a "apply" -d 'Try the gates that the configuration asks for on the running server: rke2-server is restarted, and everything is put back when kube-apiserver does not come up with them'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check show apply rollback settle help" -f -a "rollback" -d 'Put back what was in force before the last change, or end the running trial'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check show apply rollback settle help" -f -a "settle" -d 'Remove from Windrow\'s drop-in what the RKE2 that is about to start would refuse (systemd runs this before each of its starts)'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and not __fish_seen_subcommand_from check show apply rollback settle help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -l target -d 'The version that will start, such as v1.35 or v1.35.6+rke2r1; detected when it is not given' -r
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from show" -l target -d 'The version that will start, such as v1.35 or v1.35.6+rke2r1; detected when it is not given' -r
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from show" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from apply" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from apply" -l force -d 'Try gates that the check refuses, too: the trial shows whether it was right. Also ignore an upgrade in progress, other servers that are not ready, and failed trials of other servers'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from apply" -s y -l yes -d 'Do not ask whether rke2-server may be restarted'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from apply" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from rollback" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from rollback" -s y -l yes -d 'Do not ask whether rke2-server may be restarted'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from rollback" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from settle" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from settle" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check whether every component would start; all problems are printed at once'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show which gates are set, and where each comes from'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "apply" -d 'Try the gates that the configuration asks for on the running server: rke2-server is restarted, and everything is put back when kube-apiserver does not come up with them'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "rollback" -d 'Put back what was in force before the last change, or end the running trial'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "settle" -d 'Remove from Windrow\'s drop-in what the RKE2 that is about to start would refuse (systemd runs this before each of its starts)'
complete -c windrow -n "__fish_windrow_using_subcommand gates; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l from -d 'Look at saved objects instead of the cluster: the archive of `windrow report`, or a file or a directory of lists, as `kubectl get KIND -A -o json` writes them; or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l kubeconfig -d 'The admin credential; when not given, what KUBECONFIG names, or else RKE2\'s own, or else ~/.kube/config. With --root, the cluster is only contacted with this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l context -d 'The context of the kubeconfig; when not given, its current one' -r
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -l all -d 'Every node, each as if it alone were drained'
complete -c windrow -n "__fish_windrow_using_subcommand drain-check" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l to -d 'The release to upgrade to; without it what depends on that is not asked' -r
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l from -d 'Look at saved objects instead of the cluster: the archive of `windrow report`, or a file or a directory of lists, as `kubectl get KIND -A -o json` writes them; or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l kubeconfig -d 'The admin credential; when not given, what KUBECONFIG names, or else RKE2\'s own, or else ~/.kube/config. With --root, the cluster is only contacted with this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l context -d 'The context of the kubeconfig; when not given, its current one' -r
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand upgrade-check" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand vip-check" -s i -l interface -d 'The link to ask on; when not given, the one whose network the address is in' -r
complete -c windrow -n "__fish_windrow_using_subcommand vip-check" -s c -l config -d 'The Harvester configuration; when not given, this node\'s own' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand vip-check" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand vip-check" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand vip-check" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -l from -d 'Look at saved objects instead of the cluster: the archive of `windrow report`, or a file or a directory of lists, as `kubectl get KIND -A -o json` writes them; or `-`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -l kubeconfig -d 'The admin credential; when not given, what KUBECONFIG names, or else RKE2\'s own, or else ~/.kube/config. With --root, the cluster is only contacted with this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -l context -d 'The context of the kubeconfig; when not given, its current one' -r
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand diagnose" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l undo -d 'Undo a repair, without a name the newest: what nobody else has changed since becomes as it was' -r
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l kubeconfig -d 'The admin credential; when not given, what KUBECONFIG names, or else RKE2\'s own, or else ~/.kube/config. With --root, the cluster is only contacted with this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l context -d 'The context of the kubeconfig; when not given, its current one' -r
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l dry-run -d 'Only show the exact requests, and whether kube-apiserver would take those that can be tried'
complete -c windrow -n "__fish_windrow_using_subcommand repair" -l yes -d 'Do not ask'
complete -c windrow -n "__fish_windrow_using_subcommand repair" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "show" -d 'Show the configuration in force'
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "check" -d 'Check settings and rules, and name every error'
complete -c windrow -n "__fish_windrow_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from show" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from show" -l origin -d 'Say which file and line set each value'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from check" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show the configuration in force'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check settings and rules, and name every error'
complete -c windrow -n "__fish_windrow_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l number -d 'Only this one of several flights in the file, counted from 1; a process that begins, begins one' -r
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l until -d 'Stop before the first decision after this time, or after this long from the flight\'s beginning (`2026-01-01T00:05:00Z`, `4m30s`), and show how things stood' -r
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l why -d 'Explain this file or object as it stood at the end, or where --until stops' -r
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l with -d 'Tell what would have been held and released instead with these rule packs (a file or directory; can be repeated); a pack takes the place of a recorded one of its name. Or a version (of Harvester, on a node without it of RKE2): the recorded files are rehearsed with it' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand replay" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand replay" -l step -d 'Stop after each decision, until Enter is pressed (q ends)'
complete -c windrow -n "__fish_windrow_using_subcommand replay" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand blame" -s b -l boot -d 'Which boot, as in journalctl: 0 is the last one, -1 the one before it, 1 the first one' -r
complete -c windrow -n "__fish_windrow_using_subcommand blame" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''
svg\t'A picture'"
complete -c windrow -n "__fish_windrow_using_subcommand blame" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand blame" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand learn" -s o -l output -d 'The knowledge file to write [default: standard output]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand learn" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand learn" -l backtest -d 'Instead of writing knowledge: leave each boot out, predict it from the others, and compare; -o is then a format (table, json, yaml, svg)'
complete -c windrow -n "__fish_windrow_using_subcommand learn" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from show diff explain help" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from show diff explain help" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from show diff explain help" -f -a "show" -d 'Show everything that is known'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from show diff explain help" -f -a "diff" -d 'Compare two knowledge files'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from show diff explain help" -f -a "explain" -d 'Tell what is known of a kind, an object, a chart, an operator or a phase'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and not __fish_seen_subcommand_from show diff explain help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from show" -l rules -d 'Further knowledge (a file or directory; can be repeated)' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from show" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from diff" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from diff" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from diff" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from explain" -l rules -d 'Further knowledge (a file or directory; can be repeated)' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from explain" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from explain" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from explain" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show everything that is known'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from help" -f -a "diff" -d 'Compare two knowledge files'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from help" -f -a "explain" -d 'Tell what is known of a kind, an object, a chart, an operator or a phase'
complete -c windrow -n "__fish_windrow_using_subcommand knowledge; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l listen -d 'Take events (POST /events) and serve the page here: over HTTP on loopback, else over HTTPS and with a token' -r
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l nodes -d 'Who is expected: a list in YAML or CSV with name, mac, serial, host, role, rack, url, fingerprint; or Inventory objects of Harvester\'s Seeder' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l from -d 'Ask this status server (https://node:9346/status); again and again' -r
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l ask-token-file -d 'The token of the nodes\' status servers' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l ask-authority -d 'Whom to trust for their certificates, where no fingerprint is given' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l ask-announced -d 'Ask the status servers that nodes announce in their events, too: never another machine than the sender' -r -f -a "known\t'Servers whose certificate is in the list of expected nodes'
any\t'Every server: whoever may send events gets the token of the nodes\' status servers, too'"
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l kubeconfig -d 'Watch the Nodes of this cluster: their condition windrow.dev/BootstrapIncomplete and their annotation windrow.dev/bootstrap' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l token-file -d 'The token to show: as a bearer token, or as the password in a browser' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l certificate -d 'Serve over HTTPS with this certificate (PEM), here and on loopback; read again when it changes. Without it: a self-signed one, kept in --state' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l key -d 'The certificate\'s key (PEM)' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l fingerprint -d 'With --once and --wait: the SHA-256 of the certificate of a rack on another machine' -r
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l state -d 'Keep what comes in here, over restarts' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -s o -l output -d 'Output format, with --once' -r -f -a "table\t''
json\t''
yaml\t''"
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l wait -d 'End when every expected node is Ready; with --timeout, or then' -r -f -a "ready\t''"
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l timeout -d 'How long to wait (90s, 15m, 2h); without it, without an end' -r
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l plain-http -d 'Serve over HTTP on any address: where a proxy speaks HTTPS, or nobody else can listen'
complete -c windrow -n "__fish_windrow_using_subcommand rack" -l once -d 'Print what is known and end: of the rack that listens at that address, or else by asking once'
complete -c windrow -n "__fish_windrow_using_subcommand rack" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windrow -n "__fish_windrow_using_subcommand cleanup" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand cleanup" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand report" -s o -l output -d 'Where to write it; `-` is standard output [default: windrow-report-HOST-TIME.tar.gz here]' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand report" -l kubeconfig -d 'The kubeconfig of the cluster; when not given, the node\'s own. With --root, the cluster is only contacted with this option' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand report" -l timeout -d 'How long collecting may take, at most 1h; whatever is missing by then is left out. A number alone is in seconds' -r
complete -c windrow -n "__fish_windrow_using_subcommand report" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand report" -l with-manifests -d 'Include the manifests themselves, not only what they declare; Secrets without their data'
complete -c windrow -n "__fish_windrow_using_subcommand report" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand installer" -l host -d 'The node\'s root' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand installer" -l image -d 'What the image has: `install` and `tree`' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand installer" -l root -d 'The node below this directory instead of this machine\'s: a sandbox, or the disk of another one' -r -F
complete -c windrow -n "__fish_windrow_using_subcommand installer" -s h -l help -d 'Print help'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "run" -d 'Run the daemon'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "check" -d 'Check everything that can be known before the image is burned, and say one verdict'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "plan" -d 'Show offline what would be held, in which order, and why'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "preflight" -d 'Can this machine become the node that is wanted? Its processors, memory, disks, links and what it needs around it, before anything is installed'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "rehearse" -d 'Rehearse a boot in simulated time, with Windrow and without it'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "status" -d 'Show the node\'s state and its causes'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "why" -d 'Show what a held file or object waits for, down to the root, what a probe found, or what another word means'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "wait" -d 'Wait until the node or a file has reached a state'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "console" -d 'Show the node\'s state full-screen, for tty1'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "stage" -d 'Add manifests to a running node without a race'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "hold" -d 'Hold files by hand: RKE2 does not apply them until they are released'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "release" -d 'Release held files by hand: RKE2 applies them at its next pass'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "gates" -d 'Check feature gates before they keep a component from starting, and show what is set'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "drain-check" -d 'Would a drain of a node finish? Which pod, which budget, and why no other node takes a replacement'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "upgrade-check" -d 'Would Harvester let an upgrade begin, and would it end? Every check of its preflight at once, and what it does not look at'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "vip-check" -d 'Does another machine use the VIP\'s address? Asked by ARP or, for IPv6, by neighbour discovery, which takes the right CAP_NET_RAW'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "diagnose" -d 'Recognise known incidents, with the evidence, the proof and the cure'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "repair" -d 'Cure an incident that `windrow diagnose` recognised; asks first, and saves what it changes'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "config" -d 'Show and check the configuration'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "replay" -d 'Make recorded decisions again, and compare'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "blame" -d 'Show where the time of a boot went, and what decided when it ended'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "learn" -d 'Learn from recorded boots who brings what, and how long things take'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "knowledge" -d 'Show who brings what and how long things take, as it is known, and from where'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "rack" -d 'Show many nodes on one page: from their webhooks, their status servers, and Kubernetes'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "cleanup" -d 'Remove what Windrow put on this node and into the cluster: its holds, its feature gates, its condition and annotation on the Node, and its Leases if no other node uses them. Holds that you made (`windrow hold`) stay. For the removal of Windrow; the packages run it automatically'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "report" -d 'Collect the node\'s state and its causes, without secrets, in one archive to send'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "installer" -d 'Lay Windrow onto the node whose root is mounted here; for the installer image'
complete -c windrow -n "__fish_windrow_using_subcommand help; and not __fish_seen_subcommand_from run check plan preflight rehearse status why wait console stage hold release gates drain-check upgrade-check vip-check diagnose repair config replay blame learn knowledge rack cleanup report installer help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "check" -d 'Check whether every component would start; all problems are printed at once'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "show" -d 'Show which gates are set, and where each comes from'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "apply" -d 'Try the gates that the configuration asks for on the running server: rke2-server is restarted, and everything is put back when kube-apiserver does not come up with them'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "rollback" -d 'Put back what was in force before the last change, or end the running trial'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from gates" -f -a "settle" -d 'Remove from Windrow\'s drop-in what the RKE2 that is about to start would refuse (systemd runs this before each of its starts)'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "show" -d 'Show the configuration in force'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "check" -d 'Check settings and rules, and name every error'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from knowledge" -f -a "show" -d 'Show everything that is known'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from knowledge" -f -a "diff" -d 'Compare two knowledge files'
complete -c windrow -n "__fish_windrow_using_subcommand help; and __fish_seen_subcommand_from knowledge" -f -a "explain" -d 'Tell what is known of a kind, an object, a chart, an operator or a phase'
