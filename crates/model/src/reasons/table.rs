//! The table, by section of `docs/reasons.md`: code, severity, for an incident its page and whether Windrow has a cure, template,
//! advice and MESSAGE_ID of each reason. The module above explains these columns.

use super::{Reason, Severity, first};

reasons! {
    "Why a file is held" {
        WaitsForKind "waits-for-kind" Info
            "{what} is not served yet"
            "Wait for its CustomResourceDefinition, or add its manifest. `windrow why FILE` shows the expected provider."
            "95d4ccc2b43e4f798dc3825c1f914ee0";
        WaitsForNamespace "waits-for-namespace" Info
            "{what} does not exist yet"
            "Wait for the namespace, or add a manifest that creates it."
            "e2215691c67c4420aebbdb4f6da9448a";
        WaitsForObject "waits-for-object" Info
            "{what} does not exist yet"
            "Wait for the object, or add the manifest that creates it."
            "088bf3c41077450f95eadf526ef91de4";
        WaitsForReady "waits-for-ready" Info
            "{what} is not ready yet"
            "Check the object's conditions. `windrow why FILE` shows the last result."
            "68029d92eec34c4a929dad339da9a613";
        WaitsForCondition "waits-for-condition" Info
            "{what}"
            "Run `windrow why FILE` to see which rule requires this. The rule's file explains the reason."
            "fd6b538f9052414fb387b65d61e4e621";
        WaitsForCluster "waits-for-cluster" Info
            "{what} is not known: {why}"
            "Wait while RKE2 starts. Later, check that kube-apiserver runs and that the kubeconfig is valid."
            "99f89de5e3684016996664963ef0b7b5";
        HeldByAnnotation "held-by-annotation" Notice
            "held by an annotation in the manifest: {why}"
            "To release the file now, run `windrow release FILE`. To release it permanently, remove the annotation windrow.dev/hold."
            "1cdea8e27fac4eeb9adc60bb6a866025";
        HeldByHand "held-by-hand" Notice
            "held by hand: {why}"
            "To release the file, run `windrow release FILE`."
            "7401ea635bc4425492ab601ed00db8eb";
        HeldAppliedOnce "held-applied-once" Info
            "applied once, hidden from RKE2 since then"
            "Nothing to do: the manifest has the annotation `windrow.dev/apply: once`. To let RKE2 apply it again, run `windrow release FILE`."
            "915e58ae2e96487a9fc717c59bf1cd65";
        OnceUnconfirmed "once-unconfirmed" Info
            "applied once in an earlier datastore; held until RKE2's Addons show whether this cluster has it"
            "Wait until kube-apiserver answers. To let RKE2 apply the file now, run `windrow release FILE`."
            "3006138520de4a51bb92145b957dda91";
        HeldByOther "held-by-other" Info
            "held by a .skip marker not made by Windrow"
            "Windrow never removes this marker. During an upgrade, Harvester creates and removes such a marker. Remove any other one yourself if you no longer need it."
            "2b61e560a59e4992abe924dd2b57af45";
        Provisional "being-read" Info
            "new or changed; Windrow is reading it"
            "Nothing to do: Windrow holds the file only while it reads it."
            "96236b8aed4d49e6b26266e7cc237b91";
        HeldRefused "held-refused" Warning
            "RKE2 would refuse the file: {why}"
            "Fix this line. Windrow holds the file for a while, because one refused file makes RKE2 re-apply all others every 15 s."
            "68ec23c59b3643daa35b31389a49a3e6";
    }
    "What is wrong with a manifests directory" {
        FileRefused "file-refused" Error
            "RKE2 will refuse the whole file: {why}"
            "Fix this line. RKE2 applies no part of a file with an invalid document."
            "840f558437e74a2f9b0dbd8301088b89";
        ObjectRefused "object-refused" Error
            "RKE2 will refuse the object: {why}"
            "Fix the object at this line."
            "8c8bab8ea5ff404988a3b7a5da4d70a1";
        BehindDocumentEnd "behind-document-end" Error
            "RKE2 ignores this part of the file: {why}"
            "Replace `...` with `---`: RKE2 ignores the rest of a document after `...`."
            "5e1a7c0b94d24f3c8b6d2a97f0e3c815";
        LabelsDropped "labels-dropped" Warning
            "RKE2 drops all {what} of the object: {why}"
            "Put quotation marks around the value in this line: labels and annotations must be strings."
            "af64177a38fce0d306cad0dae1ec0ea6";
        FileTooLarge "file-too-large" Error
            "the file has {size} bytes; the limit is {limit}"
            "Split the file, or raise staging.limits.fileBytes."
            "771ea5b82d984588b615d08984497af1";
        LimitExceeded "limit-exceeded" Error
            "{what} exceeds the limit ({limit})"
            "Split the file, or raise this limit under staging.limits."
            "7133aac1a7a5482ebc387cbba561c6a1";
        AddonNameInvalid "addon-name-invalid" Error
            "RKE2 cannot use this file name: its Addon would be called {name}"
            "Rename the file. Before the first dot, use only lower-case letters, digits and `-` (RFC 1123)."
            "7827da6a8b2043ab9a79bc58756bcc8c";
        ObjectNameInvalid "object-name-invalid" Error
            "the API server refuses the name in {object}: {why}"
            "Rename the object, and update all references to it. Until then RKE2 fails on this file and re-applies all files every 15 s."
            "efd0a2a32d780def6e5f955598d4f8d4";
        AddonCollision "addon-collision" Error in "incidents/manifest-names.md"
            "these files share the Addon {name}; each prunes the other's objects"
            "Rename all but one: RKE2 names an Addon after the file name up to its first dot."
            "459e3e35ac5a45a79aeb4b768cde5b4a";
        SameBaseName "same-base-name" Warning
            "these files share a name, so they are held and released together"
            "Rename all but one: a marker hides every file with this name, in all directories."
            "e8ab1dcc69234e49a936730c8fbeacc3";
        DanglingSymlink "dangling-symlink" Error
            "broken symbolic link ({target}): RKE2 applies no files while the link exists"
            "Remove the link or create its target."
            "8f11f24dd6c74a1e8c3cceb0aef2b99a";
        SymlinkOutside "symlink-outside" Warning
            "symbolic link to a target outside the manifests directory, not followed"
            "Replace the link with the file: Windrow cannot stage files outside this directory."
            "cc32f1716f44473d9548aef4aa1393bf";
        SpecialFile "special-file" Error
            "{what}, not a file: RKE2 would hang when opening it"
            "Remove it."
            "d14c4a31b0fd4d27952741b808c2cfa2";
        FileUnreadable "file-unreadable" Error
            "cannot be read: {error}"
            "Fix the permissions or the file system. RKE2 stops its whole pass at an unreadable file."
            "04ed822a517246fbbdb94deec1edb373";
        FileNameNotText "file-name-not-text" Error
            "the file name is not valid UTF-8: RKE2 refuses the file in each pass, and Windrow cannot hold it"
            "Rename the file."
            "ceb0376f8ce8445592bfaa596f2ef36f";
        ApiUnknownKind "api-unknown-kind" Error
            "RKE2 will refuse the object: {why}"
            "Correct apiVersion or kind. Until then RKE2 fails on this file and re-applies all files every 15 s."
            "f60b6c1e0a7f4d5cb3e19d4287ab5c01";
        ApiRemovedVersion "api-removed-version" Error
            "RKE2 will refuse the object: {why}"
            "Use a version that is still served, and check for renamed fields. Until then RKE2 fails on this file and re-applies all files every 15 s."
            "0d9b7c42f5e84e0f9a3167c8d2b4e590";
        ApiOffByDefault "api-off-by-default" Warning
            "{why}"
            "Use a version that is served by default, or enable this one with kube-apiserver-arg in RKE2's configuration."
            "a4f1d2836c5b4f7e8e09b7d1536ac2fe";
        ApiWrongType "api-wrong-type" Error
            "the API server cannot read {object}: {field} {why}"
            "Write a value of the right type in this line. Until then RKE2 fails on this file and re-applies all files every 15 s."
            "5b27e8d904c14a6fb1f3c09e7d6825ab";
        ApiUnknownField "api-unknown-field" Warning
            "{object}: {field} {why}"
            "Correct the field name or remove the field: it has no effect."
            "c81e5f3a27d94b06ae4c1f90b3d762e8";
        ApiRefusedAgain "api-refused-again" Error
            "RKE2 applies {object} only once: {field} {why}"
            "Remove the field. RKE2 applies every file again when it starts and after a failed pass. From then on, it fails on this file every time."
            "515c094539a74315b5b1414acf7c6eff";
        ApiInvalid "api-invalid" Error
            "the API server refuses {object}: {field} {why}"
            "Correct the field in this line. Until then RKE2 fails on this file and re-applies all files every 15 s."
            "39d6a0f7b1e24c8d95e7f2c4086b1da3";
        NamespaceForgotten "namespace-forgotten" Warning
            "{object} refers to {subject}, but the files set no namespace and create it in the namespace default"
            "Set `metadata.namespace` in every object of the file. The file is meant for `kubectl apply -n`, and RKE2 has no such option."
            "e17c4a90b5d34f28a6f0c3d18e92b745";
        RoleWithoutProvider "role-without-provider" Warning
            "{object} grants {role}, which neither Kubernetes nor anything here creates"
            "Add the role, or check its name. Until it exists, the binding grants nothing."
            "72fb09e3c6a84d1bb5e7d8f1a3904c26";
        PackagedChartReplaced "packaged-chart-replaced" Error
            "{object} is RKE2's: RKE2 writes its own again at every start"
            "Set values with a HelmChartConfig of this name. To replace the chart, add it to `disable` in RKE2's configuration, and give yours another name."
            "6e99330159ab4e8182ec382e1c4ac28f";
        ChartValuesInvalid "chart-values-invalid" Error
            "Helm cannot read the values of {object}: {why}"
            "Fix this line. Until then the chart's Job fails and is retried without end."
            "2f614839488f4ec4bacfb912edfa7ce6";
        ChartNotInstallable "chart-not-installable" Error
            "{object} can never be installed: {why}"
            "Fix this line. Until then the chart's Job is refused, or fails and is retried without end."
            "9ef6f9a0be6b45c9906f24576f17aca4";
        ChartValueIgnored "chart-value-ignored" Warning
            "{object} sets the value `{key}`, and no chart reads a key with a dot at the top of its values"
            "Nest the keys: write `replicaCount` below `controller` in place of `controller.replicaCount`. Only `helm --set` reads dots as nesting."
            "520ea37be72c4aa5bab4bd95fdb36a70";
        ChartConfigWithoutChart "chart-config-without-chart" Warning
            "{object} has no effect: there is no chart {name}; did you mean {near}?"
            "Give it the name of the chart: RKE2 finds a HelmChartConfig by that name."
            "8ad3517c0e9b4f62971cb0e4d5f3a68b";
        ChartConfigUnused "chart-config-unused" Warning
            "{object} has no effect: RKE2 does not install {name}, because {why}"
            "Select the chart in RKE2's configuration (`cni`, `ingress-controller`), or remove the HelmChartConfig."
            "625d7b19d5c94e12b5fb7b3e85d6c0c5";
        ChartConfigLate "chart-config-late" Warning
            "{file} configures RKE2's chart {name} too late: Edge Image Builder applies it with kubectl, after RKE2 has installed the chart with its default values"
            "Move the file to os-files/var/lib/rancher/rke2/server/manifests, where RKE2 reads it at its first start."
            "9656a053af22437c9bcfb9977744e1e2";
        ClaimWithoutClass "claim-without-class" Warning
            "a claim of {object} {why}: it stays Pending"
            "Name an existing StorageClass, or mark one as the default with the annotation storageclass.kubernetes.io/is-default-class."
            "d06e2b7f94c14a3e8f5d1a7b3c9e6058";
        ImageClassUnknown "image-class-unknown" Error
            "a claim of {object} names StorageClass {what}, which nothing creates: the image has another class"
            "From v1.8.0 on, Harvester names the class of a new image `lh-` and its UID. Give the image `backend: cdi` and a `targetStorageClassName`, name that class in the claim, and clone the claim that has the image's name."
            "7199c0b525d84ab7a7382737082c62d2";
        VolumeNotMigratable "volume-not-migratable" Error
            "no pod can use the volume of {object}, which is ReadWriteMany and Block: {what} is not migratable"
            "Set `migratable: \"true\"` in the parameters of the StorageClass, or `ReadWriteOnce` in the claim. Longhorn exports such a volume over NFS, without a block device."
            "1230a637aae442db8b3bb1dee693caa5";
        ReferenceWithoutObject "reference-without-object" Warning
            "{object} names {what}, which nothing here creates"
            "Add the object or correct the name. If the field supports it, `optional: true` lets pods start without the object."
            "4f0d9a6be1c84725b3d6a08e5c92f714";
        NodeLabelWithoutNode "node-label-without-node" Warning
            "{object} runs only on nodes with the label {labels}, and RKE2 gives the labels of its roles the value true"
            "Select the label with the value \"true\", or only its key with the operator Exists. Otherwise these pods stay Pending."
            "b8aec8abdb194517bfb6abf7c7508fb7";
        KeyWithoutValue "key-without-value" Warning
            "{object} reads the key {key} of {what}, which has no such key"
            "Correct the key or add it. Until then the pods do not start."
            "b9163c7ed25f4a0c8e74d1f03a65b28c";
        SelectorWithoutPods "selector-without-pods" Warning
            "{object} selects {labels}; the pods here have other labels"
            "Use the labels of the pod template."
            "71e2c50d98ab4f36a4f8b6d3e07c915a";
        UserDataUnreadable "user-data-unreadable" Warning
            "{object} has user data that cloud-init cannot read: {why}"
            "Correct the YAML below `#cloud-config`. Until then the VM starts without its configuration."
            "b69d1f7b892d4503a974840f629d9cd1";
        PortWithoutTarget "port-without-target" Warning
            "{object} refers to the port {port} of {what}, which has no such port"
            "Use the name or the number of an existing port."
            "c5a87e1f40d34b9296e3f7b20d8c164e";
        KindWithoutProvider "kind-without-provider" Warning
            "nothing here defines the kind {kind}"
            "Add the CustomResourceDefinition, or declare its provider with `provides:` in a rule file."
            "6c423f0f4fba4355ba2a716603ec3c95";
        ObjectWithoutProvider "object-without-provider" Warning
            "nothing here creates {what}"
            "Add the manifest that creates it, or check the name."
            "a3eaf700bcd5444ba690129acede048d";
        ProviderSkipped "provider-skipped" Error
            "{what} is in a skipped file ({place}): {marker} hides it, and Windrow did not create that marker"
            "Remove the marker, or remove the files that require this object from the manifests directory."
            "9d4b1f60c27e4a8fb5e3067d8c21a94e";
        Unobservable "requirement-unobservable" Warning
            "Windrow cannot tell whether {what} is ready"
            "Require `(exists)` instead, or add a readiness rule for its kind."
            "f42df6a969b74dbf96748b65593e9c0b";
        RequiredCycle "required-cycle" Error
            "these requirements form a cycle; none can be met first"
            "Remove one of these requirements, or mark it `(advisory)`."
            "2eae73fbf083400ab54c0041f1e3169c";
        FileCycle "file-cycle" Warning
            "the files wait for each other, but their documents do not"
            "Split the file as shown. Then the files no longer wait for each other."
            "51e8162ed9644333918284bf3fa75c0d";
        SameFile "same-file-order" Warning
            "{what} comes from the same file as the objects that need it: RKE2's first pass fails and is repeated"
            "Move the object that provides it to a separate file."
            "73c7c38104eb4ed382c18755d1cc000d";
        InstallerInFile "installer-in-file" Warning
            "{what}, and {file} also needs it, so RKE2 fails and repeats the file: move the dependent objects to {other}"
            "Move them by hand. Windrow never holds a file that may provide its own dependencies; it holds the other file until they exist."
            "3f0c9d1e5b7a4c62a8d4e1907b6f2c35";
        MayBeBrought "may-be-brought" Notice
            "nothing here creates {what}; {file} may"
            "Nothing to do if it does. To confirm this, declare the object with `provides:` in a rule file."
            "b81d4a6c20e94f7f9c3a5d7e16f08b42";
        BroughtOnCondition "brought-on-condition" Notice
            "{by} provides {what} only if {condition}; no input confirms that"
            "Set the value, pass the configuration or the version that decides it (`--harvester`, `--rke2`), or declare the object with `provides:` in a rule file."
            "5c0e7d92ab614f3e8d17f2a94c6b3e05";
        MadeElsewhere "made-elsewhere" Notice
            "nothing known creates {what}, and {file} waits for it"
            "If a program creates it at run time, declare it with `provides:` in a rule file. Otherwise correct the name, including its API group."
            "d2b7415e0c9348a1a6f3907be8c51d64";
        KindLeftOut "kind-left-out" Warning
            "{by} does not provide {what}: `{value}` is false in its values"
            "Set this value to true, or provide the definitions in a separate file or chart."
            "a5f1267deefd4bb38054e701bfc2a61f";
        SeenOnFewBoots "seen-on-few-boots" Notice
            "{what} is expected from {by}, but was seen only {seen}, too few to rely on"
            "Learn from more boots with `windrow knowledge learn`, or add an entry without `seen` to a knowledge file."
            "8e5857c3bd93496cb66b9bd0cf6a451d";
        DependsOnInvalid "depends-on-invalid" Error
            "the annotation {annotation} cannot be read: {why}"
            "Write group/kind/name or group/namespaces/ns/kind/name, separated by commas."
            "19abc5dd13f741179aac1a56870b862b";
        AnnotationInvalid "annotation-invalid" Error
            "the annotation {annotation} cannot be read: {why}"
            "See the valid values in windrow-rules(5): run `man windrow-rules`."
            "2c8bb90bfdca48f88c582b7964ac8db5";
        RuleFailed "rule-failed" Warning
            "a rule could not be applied: {why}"
            "Fix the object's field or the rule's expression. The rule was not applied."
            "c59db126d7c14c16bb552e61924bf3bf";
        DuplicateObject "duplicate-object" Warning
            "{what} is declared more than once; the last one applied wins in all fields that can be changed"
            "Keep one."
            "b2eca266babb47189e005eb0412fdecf";
        DuplicateRefused "duplicate-refused" Error
            "two files differ in {what}: {field}; {why}"
            "Keep one, or rename one of them. Until then RKE2 fails on one of the files and re-applies all files every 15 s."
            "ee8addc43c3a4f04884874fd80188418";
        NameGenerated "name-generated" Warning
            "{what} has a generateName and no name: each time RKE2 applies the file, it creates a new object and deletes the previous one"
            "Set metadata.name. RKE2 applies every file again when it starts and after a failed pass."
            "f84b207af8df460db3c88a0bd95260a6";
        TakenTwice "taken-twice" Error
            "{what} and {other} both have {thing}: the API server refuses the second"
            "Change or remove it in one of the two. Until then RKE2 fails on one of the files and re-applies all files every 15 s."
            "38a9067ac1a5432a9748159284cb21c8";
        AdmissionRefuses "admission-refuses" Error
            "{who} refuses {what}: {why}"
            "Change the object at the first line shown, or the policy at the second."
            "000c9bfeb2074f89809e66a156a8173e";
        AdmissionUnknown "admission-unknown" Notice
            "{who} may refuse {what}: {why}"
            "Compare the lines shown. Windrow cannot tell whether the object is refused."
            "95180fe6936a4e7ba6ae611dfa6e556a";
        ServersDisagree "servers-disagree" Warning
            "{nodes} have different files for the Addon {name}: each server keeps applying its own over the other's"
            "Copy the same file to every server, or keep it on one server only."
            "24bb39b881ad4076a11a267608c86749";
        NodesDisagree "nodes-disagree" Error
            "{nodes} do not form one cluster: {why}"
            "One node creates the cluster. Every other node needs the same token and the same critical values, joins at its address or VIP, and has a unique name and address."
            "56a691148562469ca801f2be10a6c27c";
        ManifestsOnAgent "manifests-on-agent" Error
            "the node is an agent ({why}), and nothing reads an agent's manifests directory: {files} will never be applied"
            "Put the files on a server. If a server already has them, pass its configuration as well (`--node`)."
            "fd767bad956241d0bd2a2686a456d564";
        NodeReadyCycle "node-ready-cycle" Error
            "{what} waits for a Ready node; it is {is}, and no node is Ready without it ({rule})"
            "Remove this requirement: the component can start before nodes are Ready."
            "a38e73e77cfd479baf27e595da7aa9f8";
        WebhookOwnPods "webhook-own-pods" Error
            "webhook {name} locks out its own pods; it fails closed and checks those of {what}: once they are gone, they cannot be created again"
            "Exclude them with a namespaceSelector (`kubernetes.io/metadata.name` NotIn their namespace), or set `failurePolicy: Ignore`."
            "31ce2f71f0214ee68d5f7dcd0c575140";
        WebhookNotAwaited "webhook-not-awaited" Warning
            "{what} does not wait for the webhook {name}, so every RKE2 pass fails until it answers: add `{annotation}`"
            "Add this annotation to the object, so that its file waits."
            "37332394c6534a3f88827d2a7a5164d0";
        ClaimBoundBeforeUse "claim-bound-before-use" Error
            "{what} and a claim wait for each other; {claim} of class {class} is bound when a pod uses it, and no other pod does"
            "Require `(exists)` instead: the claim is bound when its first user starts."
            "404f03f12e37459292dcb01a37c205f1";
        LoadBalancerWithoutProvider "load-balancer-without-provider" Error
            "{what} gets no address: nothing here serves Services of type LoadBalancer"
            "Add a load balancer (MetalLB, kube-vip), or require `(exists)` instead."
            "084d170bcf724124b3ee5df36dad3460";
        ComponentDisabled "component-disabled" Error
            "{component} is disabled; {what} needs {need}, which it provides (the second line shown disables it)"
            "Remove the component from `disable:`, remove its .skip marker, or provide the dependency in another way."
            "b29fe32fc4664e70be34e5f189189649";
        PodSecurityRefuses "pod-security-refuses" Error
            "pod security refuses {what}: {why}; its namespace enforces {level}"
            "Set these fields in the pods, or lower the level in the namespace's label pod-security.kubernetes.io/enforce."
            "0dcb19b0792b4d42a9455e2b62ec7393";
        ImageNotBundled "image-not-bundled" Error
            "no image list has {image}: without a registry its pod never starts"
            "Add the image to the bundle, or correct its name."
            "8ac52cb8d0894a45a87f8c6a47d23601";
        YipTemplate "yip-template" Warning
            "yip expands `{what}` as a template: RKE2 gets a different text"
            "To keep two opening braces, write them as a template that returns them. `windrow check --fix DIR` does this in a copy."
            "d668dd092164420288da73371028153b";
        WriteFilesSpelling "write-files-spelling" Warning
            "the installer is reported to ignore `os.{key}` silently (harvester#10514)"
            "Write `os.writeFiles`. `windrow check --fix DIR` does this in a copy."
            "17d10a56b13b4c94b1cbe61402ccbf88";
        KeyNotRead "key-not-read" Error
            "nothing reads `{key}`: {why}"
            "Correct the key or remove it: everything below it is ignored."
            "2dc1a285bf7145b0b518eb4c49e9f1c7";
        OemCrowded "oem-crowded" Warning
            "os.writeFiles has {size} and is written to /oem twice; that partition has 50 MiB"
            "Put large manifests and files into the image, or load them later. Upgrades also need space on /oem."
            "9ce04509dcd34035bb89a67c01eda3c1";
        OemOverfull "oem-overfull" Error
            "os.writeFiles does not fit on /oem; it has {size} and is written there twice, and the partition has 50 MiB"
            "Put large manifests and files into the image, or load them later."
            "fff4c413afd84eb28d947c19db53fc05";
        PathNotRead "path-not-read" Error
            "RKE2 does not read this path ({path}): {why}"
            "Write the file below server/manifests in RKE2's data directory, with a name that ends in .yaml, .yml or .json."
            "000f69445a3d4b038d86b16f8e038032";
        PathSetAside "path-set-aside" Warning
            "RKE2 does not read {path}: {why}"
            "Nothing to do if you set the file aside on purpose. Otherwise end its name in .yaml, .yml or .json."
            "8042a258ef0746538060c7fed170fa70";
        FileHidden "file-hidden" Error
            "{path} is hidden by the mount at {what}: {why}"
            "Set `defer: true` for a file of cloud-init, or `with_mount_unit: true` for a filesystem of Butane. Without it, RKE2 never sees the file."
            "959ef4b2086a437ca20e945991bfbebc";
        FileModeUnintended "file-mode-unintended" Warning
            "the permissions {value} are a decimal number, so the file gets the mode {mode}"
            "Write a zero in front, for example 0600. Some programs refuse a file with this mode, others never notice it."
            "4676bc8bd3a84acf8b0d8d8d1be75ce5";
        InputRefused "input-refused" Error
            "this configuration file cannot be used: {why}"
            "Fix this line. The program that reads the file ignores all of it, or everything from this line on."
            "30ff42fd4cc047918280f0f2ca17865b";
        InstallerRefuses "installer-refuses" Error
            "Harvester's installer refuses this configuration: {why}"
            "Fix this line: the installer stops here, before it writes to the disk. Choose the installer's release with `--harvester VERSION`."
            "0b6011646a694c8989a6f1983bd675d1";
        InstallerOverlooks "installer-overlooks" Error
            "Harvester's installer accepts an unusable value: {why}"
            "Correct this line. The installer still writes the disk, but the node never comes up completely."
            "b970613f233fae088fc189875e3e26c2";
        InstallerUnintended "installer-unintended" Warning
            "Harvester's installer accepts a value with a probably unintended effect: {why}"
            "Change this line if you meant something else. The node comes up without the change."
            "d3abbf3a97fd45ab8418129ef29d7537";
        InstallerDepends "installer-depends" Warning
            "Windrow cannot tell whether Harvester's installer accepts this: {why}"
            "Add the setting to the configuration, or make sure that the kernel command line has it. Name the release with `--harvester`."
            "5a1b1a0aa10c47bcbbf396dab9e03645";
        InstallerIgnores "installer-ignores" Warning
            "Harvester's installer ignores `{key}`: {why}"
            "Correct the key or remove it: it has no effect."
            "dc2f286d3af4469e901dcc2f096767d7";
        UserDataIgnored "user-data-ignored" Warning
            "cloud-init ignores this: {why}"
            "Begin user-data with `#cloud-config`, and give each part of a multipart file a type that cloud-init supports."
            "7de37a6508274a93a782cdf65571fa4f";
        NotLookedAt "not-looked-at" Warning
            "not checked: {what}"
            "Windrow cannot tell which files this adds to the node. Provide them as separate files."
            "3b0ee90be2e4435aa99431ab4ee73b03";
        ValueNotChecked "value-not-checked" Warning
            "{what} is not checked ({why})"
            "A wrong value keeps the component from starting. Check it by hand, then accept this finding with your reason."
            "5c1f0b7a9d3e4f62a8b4c7d01e9f3a56";
        PlatformUnknown "platform-unknown" Notice
            "Windrow cannot tell whether the target is Harvester or plain RKE2"
            "Set it with `--harvester VERSION`, with `--platform`, or with `platform:` in windrow.yaml."
            "cecd4580ff484516af4700a5120a299d";
    }
    "What a check comes to" {
        BootUnfinished "boot-unfinished" Error
            "with Windrow {how}"
            "Fix this cause. `windrow check --details` shows the simulated boot second by second."
            "da74bea69b694264811b6146eee69c26";
        BootUnknown "boot-unknown" Warning
            "{how}"
            "Provide the missing parts as separate files, declare their provider with `provides` in a rule pack, or name a version that Windrow can simulate."
            "5bad0227ed8d43578e905896eedc86f5";
        VersionUnread "version-unread" Notice
            "{how}"
            "Windrow assumes that it starts like the releases before and after it. docs/versions.md lists the releases that Windrow's data covers."
            "8061b96b3d4c4c75accb338605a55894";
        ReleaseDiffers "release-differs" Notice
            "this installs Harvester {version}, and Windrow checks it for {target}"
            "If you did not intend this, correct the address of the ISO, or run the command without `--harvester`."
            "e995d7c848f342fab2ef2c004919448f";
        BootNoisy "boot-noisy" Warning
            "RKE2 fails to apply {files} up to {count} times before everything exists, and re-applies its other files each time"
            "Run `windrow check --details`: the first failure names the missing dependency."
            "f29a0d4e25d945b7b9e94f4df869110f";
        BootSlower "boot-slower" Notice
            "with Windrow the last file is applied {seconds} s later than without it: {file} is held longest (in nine of ten simulated boots)"
            "`windrow check --details` shows its dependencies. You can often avoid the hold: put them into separate files that sort before it."
            "35bdccc76b594e808dd7578ab60e874a";
        NameSparesPass "name-spares-pass" Warning
            "{change}: saves {time} in every simulated boot"
            "`--fix DIR` writes it. Rename only before the image's first boot. Later, RKE2 treats the file as new: its new Addon takes over the objects, and the old Addon stays behind."
            "1055188f34f24df29f3b19ba76b05510";
        SplitSparesPass "split-spares-pass" Warning
            "{change}: saves {time} in every simulated boot"
            "Move these objects by hand, and only before the image's first boot. Later, RKE2 first deletes the moved objects with everything in them, and then creates them again."
            "ea12a9418102447795b544ffcdff26ac";
        RehearsalCutShort "rehearsal-cut-short" Warning
            "the simulation ended after {time}, with {played} of {seeds} boots simulated"
            "Raise --timeout, or simulate fewer boots with --runs."
            "f9098b33316e47d1919334582ec5dc1e";
        AcceptanceInvalid "acceptance-invalid" Error
            "this entry cannot accept findings: {why}"
            "Fix this line. Until then the entry accepts nothing."
            "88d011dec70a44609d4cc9fd3a542a26";
        AcceptanceStale "acceptance-stale" Warning
            "this entry no longer accepts anything: {what}"
            "Remove the entry, so that it cannot hide a later finding."
            "c9318ff3a36047938565b08207b04244";
    }
    "What Windrow did and saw" {
        Started "started" Info
            "Windrow {version} started"
            "Nothing to do."
            "51663293be454ae5be5ea5b75fff6e43";
        Stopping "stopping" Info
            "Windrow stops; holds stay in place"
            "Nothing to do. If Windrow cannot start again, the fail-safe unit releases every file that it is allowed to release."
            "82424bdb12384d748acf0a42dd030dd4";
        Scanned "scanned" Info
            "manifest files: {files}, of which {held} held"
            "Nothing to do."
            "6ae0fb5b8fc14c5d9d0f3d7ef78b7e08";
        Held "held" Notice
            "{file} held: {why}"
            "`windrow why FILE` shows the chain of causes and when the file is released."
            "f28e416e6728454484b53fb0dc15abe1";
        NotHeld "not-held" Warning
            "cannot be held, so RKE2 may apply it too early: {error}"
            "Windrow retries automatically. Make the manifests directory writable for windrow.service (`ReadWritePaths=`), and free space on it. The file name plus `.skip` must fit into 255 bytes."
            "4f8acddd8e11e79b14e3a36d16335738";
        MarkerStays "marker-stays" Warning
            "stays hidden from RKE2, because its marker cannot be removed: {error}"
            "Windrow retries automatically. Make the manifests directory writable for windrow.service (`ReadWritePaths=`), or remove the `.skip` file yourself."
            "6642f4659e6defe87106bfeff192000c";
        Released "released" Notice
            "{file} released after {age}: {why}"
            "Nothing to do: RKE2 applies the file in its next pass, within 15 s while kube-apiserver answers."
            "7aa7fbbac9ff4d079baafbc99d3df814";
        Applied "applied" Info
            "{file} applied by RKE2"
            "Nothing to do."
            "b6eae2960c464f20a7a1925c65fb5a92";
        ApplyFailed "apply-failed" Warning
            "RKE2 could not apply {file}: {why}"
            "Fix the manifest or its dependencies. RKE2 retries every 15 s."
            "bca28882cce94157b70ea94845fa8876";
        NotApplied "not-applied" Warning
            "RKE2 has not applied {file}: {why}"
            "Kubernetes can drop the failure's event. Run `journalctl -u rke2-server | grep 'Failed to process config'` on the file's server. Keep copies on all servers identical. `touch` makes RKE2 apply a file again."
            "76241485c18003c3e3a41b11da51aa93";
        Escaped "escaped" Warning
            "{file} was applied before its marker was in place"
            "Nothing to do if it works. To add manifests to a running node without this gap, use `windrow add`."
            "e58697035e614e64bc41e03afe16e303";
        Yielded "yielded" Warning
            "{file} released although it still waits: {why}"
            "Its deadline passed, or it is part of a cycle. RKE2 keeps retrying."
            "1e2cb549992b47db859b11867456c63b";
        Overdue "overdue" Warning
            "{file} stays held past its deadline: {why}"
            "`windrow why FILE` shows the root cause, and whether a release would do harm, for example if a rule holds back a VM."
            "14b49729cb1b4671972bcf315d6d3ef9";
        Regressed "regressed" Warning
            "{what} was ready when {file} was released, and is not ready now"
            "Check the object. Windrow does not hold the file again."
            "e1c0385d28554f39b841e2570c57bf7b";
        Vanished "vanished" Info
            "{file} is gone"
            "Nothing to do: RKE2 keeps the objects of a removed file."
            "57fffbf03071493cafa4c97d86b8c34c";
        MarkerLost "marker-lost" Warning
            "the marker of {file} was removed by someone else"
            "Windrow creates it again while the file still waits. To release the file, run `windrow release FILE`."
            "01da193b31044b948e042b255cc1019c";
        LedgerRebuilt "ledger-rebuilt" Warning
            "the state file could not be read and was rebuilt: {why}"
            "Nothing to do. The old file is kept next to the new one."
            "7d74fa0edb1a4a759b44298ef3a09ceb";
        NewCluster "new-cluster" Notice
            "RKE2 has joined another cluster: decisions for the previous cluster no longer count"
            "Nothing to do: Windrow decides again about every manifest. Manual holds stay."
            "fdb103b3ca444c75b2aba9ef1edd8f62";
        FindingResolved "finding-resolved" Notice
            "resolved: {what}"
            "Nothing to do."
            "bdb8be6e1b5a4eefb032bd2130b3596c";
        ActionFailed "action-failed" Warning
            "could not {what}: {error}"
            "Fix the file system. Windrow retries automatically."
            "130a4fdc7785489caff52ae4d976b2e8";
        FlightNotRecorded "flight-not-recorded" Warning
            "the boot log cannot be written: {why}"
            "Staging and reporting continue, but this period cannot be replayed later. Fix the file system, or set flight.enabled to false."
            "a3fa892a4fdd42c29774a4a68f24fc30";
        FlightNotCopied "flight-not-copied" Warning
            "the boot log of the failed node is not copied to {why}"
            "The boot log on this node is complete. Free space there, or set flight.copyTo to another directory or to none."
            "bbabb5757e5a4bc5b92038880e8b3d75";
        ApiUnreachable "api-unreachable" Info
            "kube-apiserver does not answer: {why}"
            "This is normal before RKE2 is up. Later, check rke2-server and the kube-apiserver pod's log."
            "ef7fbdf6ab6f4fe3bf3b2c0606b3e52f";
        ApiReachable "api-reachable" Info
            "kube-apiserver answers"
            "Nothing to do."
            "fdee2c935cba45b28d150a3618156583";
        CredentialRefused "credential-refused" Warning
            "kube-apiserver cannot be asked: {why}"
            "Waiting does not help. RKE2 writes its kubeconfigs at each start: run `systemctl restart rke2-server`, or check this kubeconfig."
            "5a0baa30477e4d0989d7a72bd5af02d6";
        Forbidden "forbidden" Warning
            "{what} is refused: {why}"
            "The credential lacks this permission, so the answer is Unknown. Check its rights."
            "3fc050723902421fac581129e470c6ed";
        WatchLost "watch-lost" Info
            "the watch on {what} ended: {why}"
            "Nothing to do: Windrow restarts the watch automatically."
            "d1cff9e18d0a4bcc88d8ff7086ed9c34";
        DirectoryMissing "directory-missing" Info
            "{path} does not exist yet"
            "This is normal before RKE2's first start."
            "56a0c0270b3541f1aa3458d9bd172999";
        TaskEnded "task-ended" Error
            "{what}: Windrow exits, and systemd starts it again"
            "Nothing to do if it happens once. If it happens again, send the archive of `windrow report` to the developers. The journal lines before this one show the cause."
            "9eac4444bf4a4e34b51b45e237e10459";
        OutletServed "outlet-served" Info
            "{outlet} is served: {what}"
            "Nothing to do."
            "a59d27527133455db3e94207d91beae2";
        OutletDown "outlet-down" Warning
            "{outlet} is not served: {why}"
            "The node is not affected; only this output is missing. Windrow retries automatically."
            "bde7014073f847c8bda9b550e6e1a6d0";
        WebhookDelivered "webhook-delivered" Info
            "webhook {event} was delivered to {console}"
            "Nothing to do."
            "f8ae031f3b3f45929a776604392dd85b";
        WebhookFailing "webhook-failing" Warning
            "webhook {event} to {console} failed: {why}"
            "Check the console. Windrow retries while the event is true, with at most five minutes between attempts. The node does not wait for it."
            "f5dd8d3c60ae4bfdabfb48df0d96da36";
        WebhookGivenUp "webhook-given-up" Warning
            "webhook {event} to {console} was given up: {why}"
            "The event ended before the console accepted it, so Windrow no longer sends it. Check the console. Windrow sends the event again when it happens again."
            "a55e8249ecc24e1186fb50ae056dc627";
        ConfigurationInvalid "configuration-invalid" Error
            "the configuration has errors: {why}"
            "`windrow config check` shows the file and line. The last valid configuration, or the default, stays in effect."
            "9e2703ffe4cd4dd294ac748021835e05";
        ConfigurationLoaded "configuration-loaded" Info
            "configuration loaded"
            "`windrow config show --origin` shows which file sets each value."
            "69eea2babe224bc98d724721e885e326";
        RepairBegun "repair-begun" Notice
            "{by} repairs {subject} ({code}): {what}"
            "Nothing to do. The record in Windrow's state directory has the previous state of the objects."
            "edca7f523fac4fc8ac668e5db59227ba";
        RepairDone "repair-done" Notice
            "{subject} is repaired: {code} is over (by {by})"
            "Nothing to do."
            "4067c954778c4f4a80bd1b89727cbb3c";
        RepairFailed "repair-failed" Warning
            "{subject} ({code}) is not repaired: {why} (by {by})"
            "`windrow repair CODE` continues at this point. The record in Windrow's state directory has the previous state of the objects."
            "9c491ab48f1045069c13b93994dd376a";
        RepairUndone "repair-undone" Notice
            "the repair of {subject} ({code}) is undone: {what} (by {by})"
            "Nothing to do. Changes that others have made since then are kept."
            "186fd8baeb5043e0a513a2ee6fe3064d";
        IncidentOver "incident-over" Info
            "{subject}: {code} is over"
            "Nothing to do."
            "00afdc1f8647404aabf0b8115282f0a9";
    }
    "Where the node stands" {
        AllApplied "all-applied" Info
            "all {count} manifests are applied"
            "Nothing to do."
            "c4eaad63eeb2499e8edb34e4513b614e";
        NothingToStage "nothing-to-stage" Info
            "there are no manifests to stage"
            "Nothing to do."
            "8521dbb5fa3b4148b8f214b1f5719f22";
        Staging "staging" Info
            "{done} of {count} manifests applied, {held} held"
            "`windrow status` lists them."
            "20cc1823d14f4725a09068a5150cb810";
        StagingFailed "staging-failed" Error
            "{count} manifests failed"
            "`windrow status` lists them with RKE2's error messages."
            "70d12ce28c334ea080ec8b6d3217b8b0";
        NotProbed "not-probed" Info
            "all manifests are applied; the node itself is not probed"
            "Run `kubectl get nodes`, or enable probes (`probes.enabled` in the configuration)."
            "a15c2262ab894a0480d313fa2fbab2d5";
        StateUnknown "state-unknown" Warning
            "state unknown: {why}"
            "Check that kube-apiserver runs and that the kubeconfig is valid."
            "e7a0fc6a59b044afbf59e8206fc3169d";
    }
    "Feature gates" {
        GateUnknown "gate-unknown" Error
            "there is no feature gate {gate}"
            "Correct the name: a component does not start with an unknown gate. See docs/gates.md."
            "2c8667faa6c3406ba229ce88c11d0a18";
        GateRemoved "gate-removed" Error
            "the feature gate {gate} was removed in Kubernetes {version}"
            "Remove the gate, or limit it with `when:`."
            "f28cf61f3b8d488cb4e98dff11c7a1cf";
        GateTooNew "gate-too-new" Error
            "the feature gate {gate} comes with Kubernetes {version}"
            "Remove the gate, or limit it with `when:`."
            "e1751b503cc640c6b4e914af89e8f554";
        GateCase "gate-case" Error
            "the feature gate {gate} is written in the wrong case"
            "Write it as shown: gate names are case-sensitive."
            "ba5c0322d3d043b5bf18a103665bad53";
        GateConstant "gate-constant" Error
            "{gate} is the name of a constant in the sources, not of a feature gate"
            "Write the gate's name as shown."
            "a0013ff2475a4b489f4ad42174b901a0";
        GateElsewhere "gate-elsewhere" Error
            "{gate} is a feature gate of another program"
            "Set it in the configuration of that program."
            "8d29c92eccac44bbbf17a38099bb409b";
        GatePodSelectors "gate-pod-selectors" Error
            "NodeAuthorizerEnablePodSelectors is not a feature gate in any version"
            "List pods with the field selector spec.nodeName instead of changing a gate."
            "964d72c2b8e744df8e2c0abbf12b1860";
        GateLocked "gate-locked" Error
            "the feature gate {gate} is locked to {value}"
            "Remove the gate, or limit it with `when:`."
            "7ba66bdf8c1a4d2faca0bd1e2bf2b12a";
        GateDependency "gate-dependency" Error
            "the feature gate {gate} is on and requires others that are off"
            "Set all of them, or none."
            "b116f40806284465b0ecddd352c556a1";
        GateApiNotServed "gate-api-not-served" Error
            "the feature gate {gate} makes kube-apiserver watch an API that it does not serve"
            "Enable the API with kube-apiserver's `runtime-config` as shown, or remove the gate."
            "5f0c3b9e7a1d4c62b8e40d97f3a6125c";
        RuntimeConfigRefused "runtime-config-refused" Error
            "kube-apiserver does not start with a key of its `runtime-config`"
            "Remove the key, or use a version that this Kubernetes minor has."
            "f4db8c5308d34f9c9f666f3432cd00a6";
        GateUndecided "gate-undecided" Warning
            "Windrow cannot tell how {component} uses its feature gates"
            "Check the argument shown. It changes how the gates work, and Windrow does not know its effect."
            "c27e91d4058b4f3fa96d1b7083ce54aa";
        GateGroup "gate-group" Error
            "{gate} sets every gate of a stage"
            "List the individual gates instead."
            "d5b0a95d5828436db62bd0d3a761e868";
        GateSyntax "gate-syntax" Error
            "a feature-gates flag cannot be read: {why}"
            "Write Name=true,Other=false, with commas and without quotes or spaces."
            "cf2fcebf0876471db0fde4951e58fa35";
        GatePrefix "gate-prefix" Error
            "feature gates with and without the prefix kube: are mixed"
            "Write plain names everywhere."
            "8af63a7a19894fc197135247b176f351";
        GateFlagName "gate-flag-name" Error
            "the flag {flag} does not exist"
            "Write feature-gates=Name=true."
            "25fbc17f51d2496d9296c1c4b1187291";
        GateComponent "gate-component" Warning
            "the feature gate {gate} is not read by {component}"
            "Set it for the component that reads it."
            "2a76dd4b36f04337941af62eec1dec3f";
        GateStage "gate-stage" Warning
            "the feature gate {gate} will be removed"
            "Remove it before the minor version that removes it."
            "f5568f053f074addab884728c260b099";
        GateNextMinor "gate-next-minor" Warning
            "the feature gate {gate} stops {component} at the next minor"
            "Make the change shown before the upgrade. You can limit a gate in Windrow's configuration with `when:`."
            "76450765593444d3b662a15a1d757d3b";
        GateUncovered "gate-uncovered" Warning
            "Windrow has no data about the feature gates of Kubernetes {version}"
            "Use a Windrow release whose catalogue covers this minor, or run the check on a node that has its kubelet."
            "55d02eda0c644d33b4cb76a1fdc6b145";
        GatePatch "gate-patch" Warning
            "the feature gate {gate} came with a patch release"
            "Give the full version with --rke2, or use a newer patch release."
            "1bba5362827e412786c5e8607ea1357f";
        GateConflict "gate-conflict" Warning
            "the feature gate {gate} is set twice with different values"
            "Keep one; the last one read wins."
            "d49799d8b4d54e9786d09e42af072c8c";
        GateWiped "gate-wiped" Warning
            "a later file replaces the list that sets {gate}"
            "Write the key with a `+` in the later file, or merge the lists."
            "92a9aff7349e482c8dafb030e87418cf";
        GateLeftOut "gate-left-out" Warning
            "the feature gate {gate} is not written: {why}"
            "`windrow gates check` shows all omitted gates."
            "466cff2b5c0248199c83654b889a7c0c";
        GateTargetUnknown "gate-target-unknown" Warning
            "Windrow cannot tell which Kubernetes version will start: {why}"
            "Set it with --rke2. Until then, Windrow writes only gates that every plausible version accepts."
            "b62a7a61cf694c79a6abeaa66b69b315";
        GatesWritten "gates-written" Notice
            "{path} now sets {gates}"
            "Nothing to do: RKE2 reads it at its next start."
            "8bed72264d404235b6fd64a15cd6e15e";
        GateDropped "gate-dropped" Warning
            "`{gate}={value}` for {component} was removed from Windrow's drop-in: {why}"
            "Nothing stops because of this. Correct the gate in the configuration; `windrow gates check` shows it."
            "b3b883c2f3f14afd8bbecf41c89b2f72";
        GatePending "gate-pending" Notice
            "feature gates are configured and not written yet: {gates}"
            "Windrow writes them only at the next boot, before RKE2 starts. Restarting only RKE2 does not, so that such a restart never tests a new gate. `windrow gates apply` tries them now."
            "654e82a088a745aba20677cc7e56e041";
        GatesWithheld "gates-withheld" Warning
            "Windrow's feature gates differ from its configuration ({difference}): {why}"
            "If the configuration has errors, fix them: until then no gate changes. Otherwise change `featureGates`, or run `windrow gates apply` to try them now."
            "f73a896a2a5143b59d5e9fbef74d1f7e";
        GateTrial "gate-trial" Notice
            "feature gates on trial ({gates}): {step}"
            "Nothing to do: `windrow gates check` shows the result. Until then kube-apiserver on this node may be unavailable."
            "16ab95f73bfe49cab80a8bd1c49e8698";
        GateTrialKept "gate-trial-kept" Notice
            "the feature gates passed the trial and stay: {gates}"
            "Nothing to do: kube-apiserver is ready and reports that they are in effect."
            "97373330ffa24675a1a756ccca0c4f7e";
        GateTrialRolledBack "gate-trial-rolled-back" Warning
            "the feature gates were rolled back ({gates}): {why}"
            "Correct the gates in the configuration. Windrow tries them on this version again only after `windrow gates apply`."
            "4e13956b803245ea823da33c636c8def";
        GateTrialRefused "gate-trial-refused" Warning
            "the feature gates were not tried ({gates}): {why}"
            "Nothing was changed. Fix this cause, then run `windrow gates apply` to try them again."
            "1f0fc96ac68e4d9e9b756dccb3864ce2";
        GateUnverified "gate-unverified" Notice
            "Windrow could not verify every feature gate: {why}"
            "kube-apiserver is ready with them. Check the component's log."
            "20af869efb1a4e85ac223900c10ec307";
        GateFatal "gate-fatal" Error in "incidents/node.md"
            "{component} does not start because of the feature gate {gate}: {error}"
            "Remove the gate from the file shown, and restart rke2-server."
            "f2d1f66531264b478d09019010bc44fd";
        GateRefusedByBinary "gate-refused-by-binary" Error
            "the binary that will start refuses the feature gate {gate}: {error}"
            "Remove the gate: the components of this version know the same gates as the installed kubelet."
            "e1166c73469640dd839302b7ec443c5b";
        ConfigFileRefused "config-file-refused" Error
            "RKE2 cannot read the configuration file: {why}"
            "Fix this line. Until then RKE2 exits at once, and systemd restarts it forever."
            "38ab8f91e96344a788b7aafb909ce7be";
        ConfigPathNotRead "config-path-not-read" Warning
            "RKE2 does not read {path}, which has keys of its configuration"
            "Name it /etc/rancher/rke2/config.yaml or registries.yaml, or write it into config.yaml.d under a name that ends in .yaml or .yml."
            "653ad17b1fb7446d9843c7fae71d6059";
        Rke2ValueUnintended "rke2-value-unintended" Warning
            "RKE2 starts, but probably not as it is meant: {why}"
            "Correct the value. RKE2 does not report it."
            "e80afdf3791c466d85b40adcee7575d8";
        ClusterDnsOutside "cluster-dns-outside" Error
            "`cluster-dns` {value} is not in the network of Services: kube-apiserver refuses the Service of CoreDNS, and no name resolves"
            "Write an address of `service-cidr`, or remove `cluster-dns`: its default is the tenth address."
            "d2efab9a99e24bc69bd0086187195144";
        DataDirDiffers "data-dir-differs" Error
            "RKE2 uses another data directory: {why}"
            "Set dataDir in Windrow's configuration to the same directory and reload it. Until then Windrow does not stage RKE2's manifests."
            "1b9c1f6b3a2d4d0f9a3e5c7e8f60412d";
        ManifestsReadOnly "manifests-read-only" Error
            "Windrow cannot write to {path} and holds nothing there: {why}"
            "Make the directory writable for windrow.service and windrow-failsafe.service with the commands shown. Until then nothing is staged."
            "f49e7d73d61e4dd78a8f043119e0ee54";
        ManifestsUnreadable "manifests-unreadable" Error
            "{path} cannot be read: {error}"
            "Fix the file system or the permissions. Windrow retries every few seconds. Until then it uses its last state of the files, and keeps markers."
            "7252011b6ed648f9ac5186ac8a31d519";
        ManifestsNotWatched "manifests-not-watched" Warning
            "Windrow cannot watch {path} for new files and reads it every few seconds instead: {why}"
            "Raise fs.inotify.max_user_watches or fs.inotify.max_user_instances as shown. Until then RKE2 can apply a new file before Windrow holds it."
            "a8e9d3ee41724260a52a4ef58b78f84b";
        ComponentArgumentInvalid "component-argument-invalid" Error
            "the component's argument cannot be used: {why}"
            "Use an argument that this version of the component has, and write it as name=value."
            "b1c508e5388d454bbec5667206ffb084";
    }
    "Known incidents" {
        AddonStuck "addon-stuck" Error in "incidents/addon.md" [curable]
            "{subject} is stuck: {why}"
            "`windrow repair addon-stuck --dry-run` shows the available fix. docs/incidents/addon.md describes each case."
            "d110ae5edec44955b7e3d9cc12d69a57";
        AddonFailed "addon-failed" Error in "incidents/addon.md"
            "{subject} failed; it is not retried: {why}"
            "Fix the cause shown in the Job's log, then disable the Addon and enable it again."
            "ccfbf4ce29974976b7d6aea6dd5f2b82";
        AddonImageMissing "addon-image-missing" Error in "incidents/addon.md"
            "{subject} waits for an image: {why}"
            "Load the image on the nodes, or give them access to its registry. The Addon then continues automatically."
            "1256afdffa2b4a71861714b7d11f18a8";
        AddonControllerDown "addon-controller-down" Error in "incidents/addon.md"
            "no controller works on {subject}: {why}"
            "Check the component shown: the harvester pods in harvester-system, or rke2-server (`systemctl status rke2-server`)."
            "0f2692d933a84c84a9faf4cdfb75a7dc";
        ReleaseLeft "release-left" Warning in "incidents/addon.md"
            "{subject} is disabled, but its objects still exist: {why}"
            "`helm -n NAMESPACE uninstall NAME --wait` shows why Helm does not uninstall it, and removes the rest. Or enable the Addon again: it takes over the release."
            "12ac212fc3ab4dbdb2281603ff6d8ad6";
        DrainBlocked "drain-blocked" Error in "incidents/drain.md" [curable]
            "the drain of {subject} can never finish: {why}"
            "`windrow drain-check NODE` shows the proof. The fix depends on the pod."
            "d7260ba329254ead83a478f01ec4cf53";
        PlanStuck "plan-stuck" Error in "incidents/upgrade.md" [curable]
            "{subject} does not advance: {why}"
            "Delete the pod of system-upgrade-controller in cattle-system. Its Deployment creates it again, and the Plan continues."
            "4fa8fb07dde54ad8a77aa293fb41036e";
        MachineMissing "machine-missing" Warning in "incidents/upgrade.md"
            "{subject} has no matching Node or Machine, so no upgrade can finish: {why}"
            "Rancher upgrades Machines, not nodes. Check rancher-system-agent on that node and fix the node's annotation. Remove a Machine only if its node is gone, and nothing of a node that still runs."
            "edc74776b1374fedbaa99ef58a06e9f5";
        NodeNotUpgraded "node-not-upgraded" Warning in "incidents/upgrade.md"
            "{subject} does not start its next node: {why}"
            "Check the objects quoted here. If Rancher waits for a node's agent, run `systemctl restart rancher-system-agent` on that node."
            "26d717e1f5b34893803b2059d692fb05";
        PreDrainWaits "pre-drain-waits" Warning in "incidents/upgrade.md"
            "{subject} stays in Pre-draining: {why}"
            "Repair the volume, free space for it, or request fewer replicas. Stop or migrate the VM. Harvester then continues automatically."
            "a24789a22ee945a68c1d0f62f19b3f63";
        EngineStale "engine-stale" Error in "incidents/upgrade.md" [curable]
            "{subject} keeps its PodDisruptionBudget because of a stale engine: {why}"
            "If an Orphan of the engine is shown, delete it: Longhorn then ends the process. Deleting the PodDisruptionBudget can cost the last copy of a volume."
            "cf6e3f6cbbb6484492bf7e17ab4bf736";
        EtcdLearner "etcd-learner" Error in "incidents/upgrade.md"
            "{subject} has no vote in etcd: {why}"
            "Check rke2-server's journal on that node, and etcd's members from another server. Windrow never changes members."
            "f971cbce9ea0491fa3aeeada2bad8613";
        UpgradeRepoDown "upgrade-repo-down" Error in "incidents/upgrade.md"
            "the repository of an upgrade is down ({subject}): {why}"
            "Check its pods and its volume."
            "0ae1572cc0d5497696e21d09359f4efd";
        RebootWaits "reboot-waits" Warning in "incidents/upgrade.md"
            "{subject} has not come back with its new system image: {why}"
            "Check the node's console and /usr/local/upgrade_tmp/elemental-upgrade-*.log. If the node booted the old image, there was usually no space for the new one."
            "61e3e4fac2cf4714b9c3dfa45204ef54";
        UpgradeStalled "upgrade-stalled" Error in "incidents/upgrade.md"
            "an upgrade has stalled; {subject} blocks it: {why}"
            "Fix this cause. Harvester then continues automatically."
            "444cafce55564bf5b7327128a8f3199b";
        UpgradeFailed "upgrade-failed" Error in "incidents/upgrade.md"
            "an upgrade has failed; {subject}: {why}"
            "Create a support bundle, read the log of this Job, and fix the cause. Only then start the upgrade again."
            "d981d96ded8f470eaaa437d86285f623";
        MachinesBlockSettings "machines-block-settings" Error in "incidents/machines.md" [curable]
            "{subject} cannot create its settings and keeps restarting: {why}"
            "`windrow repair machines-block-settings --dry-run` shows the fix: these VMs stay stopped until the settings exist."
            "bc52de413d7a48b9b5567f9413b94744";
        RepairUnfinished "repair-unfinished" Warning in "incidents/README.md"
            "{subject} was interrupted and has not restored its temporary changes: {why}"
            "Run `windrow repair --undo RECORD --dry-run`, then the same without --dry-run. RECORD is the name of the record."
            "6d3e31a851724624a6304ca41cb9ccf0";
        DriverWithoutFeature "driver-without-feature" Warning in "incidents/rancher-driver.md" [curable]
            "{subject} is off, but its node driver is on: {why}"
            "If no cluster was created with it, set spec.active of NodeDriver harvester to false. Rancher before v2.11.0 never does this automatically."
            "f3d71dfc5c674cdda7b543c93654e849";
        StorageNetworkWaits "storage-network-waits" Warning in "incidents/storage-network.md"
            "{subject} is not configured: {why}"
            "Stop the VMs and pods listed here. Harvester then continues automatically."
            "50cc496cf0f642b9bbd02ac129e80cf6";
        ChartRetries "chart-retries" Warning in "incidents/chart.md"
            "{subject} keeps failing and is retried: {why}"
            "Read the Job's log, then fix the chart's values or its dependencies."
            "8bec5c36fba14667bc7b14059e0b6621";
        KubeletCredentialExpired "kubelet-credential-expired" Error in "incidents/node.md"
            "kube-apiserver refuses the kubelet of {subject}: {why}"
            "Restart rke2-server or rke2-agent on the node: RKE2 renews its certificates at each start."
            "5e77823e2e06405e833e99af1e550f09";
        NodeNameChanges "node-name-changes" Warning in "incidents/node.md"
            "{subject} gets another name when RKE2 restarts: {why}"
            "Before RKE2 restarts, restore the old name (`hostnamectl set-hostname`), or set node-name in RKE2's configuration. Otherwise a new Node joins, and the old one stays NotReady."
            "46fe6793acca467d90e2dc7831d05525";
        WriteFilesMissing "write-files-missing" Warning in "incidents/node.md"
            "{subject} lacks files that Harvester's configuration defines: {why}"
            "Write them as os.writeFiles, then restart the node. Some versions ignored os.write_files (harvester#10514)."
            "97acb144cf3449089b9c78c2771d3057";
        ManifestDiffers "manifest-differs" Warning in "incidents/manifest-names.md"
            "servers have different manifests of {subject} and delete each other's objects: {why}"
            "Make the files identical on all servers, or give them different names."
            "9c2fa6a59cb84b0280e7f3fa75718ee2";
        VipConflict "vip-conflict" Warning in "incidents/vip.md"
            "a host outside this cluster answers for {subject}: {why}"
            "Find the host by its MAC address in the switch, and give it another IP address. Before an installation, `windrow preflight` finds such a host."
            "892af80c1a5149608498f867c8eb7b8e";
        VipStaleLink "vip-stale-link" Error in "incidents/vip.md"
            "{subject} still has a VIP of another node: {why}"
            "On that node, run `ip link delete LINK` for a link vip-*, otherwise `ip address delete VIP/32 dev LINK`."
            "3149736ba9f44b4b8d6a3b5f94fdac9f";
        DriverInUse "driver-in-use" Warning in "incidents/rancher-driver.md"
            "{subject} is off, but clusters still use it: {why}"
            "Set spec.active of NodeDriver harvester to true until their Machines are moved or deleted."
            "aa4e073d25674bda83735ecff130e50b";
        ChartModified "chart-modified" Warning in "incidents/platform.md"
            "{subject} was changed after it was installed: {why}"
            "Restore these objects: `kubectl patch KIND NAME --type merge -p PATCH`. `windrow diagnose -o json` has the whole patch. Until then Harvester starts no upgrade."
            "aabcca7163cc40cdba2c61c620ca91cc";
        ChartPaused "chart-paused" Warning in "incidents/platform.md"
            "{subject} is paused although no upgrade is running: {why}"
            "An upgrade that was stopped or failed leaves it paused. Set its spec.paused to false: `kubectl -n fleet-local edit managedcharts.management.cattle.io NAME`."
            "62d46a8e3b2c4438b9d2c52ddc7e8a1d";
        ManagedChartNotReady "managed-chart-not-ready" Warning in "incidents/platform.md"
            "{subject} is not Ready: {why}"
            "Check the objects shown. The chart becomes Ready automatically once they are ready."
            "6a566a1dd62643f6a87ab9db13c1914d";
        PlatformImageMissing "platform-image-missing" Error in "incidents/platform.md"
            "cannot pull {subject}: {why}"
            "Load the image on the node (ctr -n k8s.io images import), or give the node access to its registry. Make sure that the disk does not fill up again."
            "cfdcef3f235a4dd7ae0874ce4909a409";
        PlatformPodPending "platform-pod-pending" Warning in "incidents/platform.md"
            "no node accepts {subject}: {why}"
            "The evidence shows why each node refuses it. Free space there, or fix these labels and taints."
            "e877074fb2204cfb9bfcd910dfe043f2";
        PlatformPodTerminating "platform-pod-terminating" Warning in "incidents/platform.md"
            "{subject} is being deleted and does not terminate: {why}"
            "Search agent/logs/kubelet.log in RKE2's data directory on its node for the pod's UID. If its volume is gone and cannot be unmounted: `kubectl delete pod NAME -n NAMESPACE --force`."
            "38cf80720bea46eab44656f29907f5c1";
        ReleaseHalfWay "release-half-way" Warning in "incidents/platform.md"
            "{subject} is stuck in the middle of a change: {why}"
            "`helm history RELEASE -n NAMESPACE` shows the last deployed revision. `helm rollback RELEASE REVISION -n NAMESPACE` restores it."
            "c3140d4b708142ac849e2798e0e082cb";
        MixedVersions "mixed-versions" Warning in "incidents/platform.md"
            "{subject} of one cluster run different versions: {why}"
            "Finish the upgrade, or upgrade the older nodes to the version of the others, servers first."
            "11f00cbafe7346539b7115f32f3e22d7";
        NotPromoted "not-promoted" Warning in "incidents/platform.md"
            "Harvester promotes no agent of {subject} to a server: {why}"
            "The evidence shows the obstacle on each Node. Remove it. Harvester then promotes the oldest agent at the next change of a Node."
            "d311352343394d35b2c8183ca06d0160";
        RancherWebhookPanics "rancher-webhook-panics" Error in "incidents/bootstrap.md"
            "rancherd is blocked; rancher-webhook panics on its Cluster: {why}"
            "Install Harvester v1.6.1 or newer, whose Rancher has the fix. Scaling the webhook down does not help (docs/incidents/bootstrap.md)."
            "a4ef68f58d74467a93680a5aeb59dd45";
        Rke2BootstrapLoop "rke2-bootstrap-loop" Error in "incidents/bootstrap.md"
            "rke2-server of {subject} keeps restarting: {why}"
            "Move its VMs away. Then stop rke2-server there, run rke2-killall.sh (it ends the pods and etcd), and start rke2-server again. Do one server at a time."
            "5541d0338d2546d2a0e4add6ae4aa1a2";
        WorkloadNotAvailable "workload-not-available" Error in "incidents/symptoms.md"
            "{subject} does not work: {why}"
            "Run `kubectl describe` and `kubectl logs --previous` for the pods shown, and fix the cause."
            "5595bdb957b444a5bf464c4cb0dcc546";
        JobNotDone "job-not-done" Warning in "incidents/symptoms.md"
            "{subject} is not done: {why}"
            "Run `kubectl describe` and `kubectl logs` for the Job and its pods, and fix the cause."
            "1197a722601542b59abef8be134f3712";
        ProblemStays "problem-stays" Warning in "incidents/symptoms.md"
            "{subject} has a problem that does not end: {why}"
            "The message comes from the controller of this object. Fix the cause that it names, or read its log."
            "89913fa822bc49eba43e7a0d80b4e36e";
        PodTerminating "pod-terminating" Warning in "incidents/symptoms.md"
            "{subject} is being deleted and does not terminate: {why}"
            "A drain waits for this pod. Search agent/logs/kubelet.log in RKE2's data directory on its node for the pod's UID. For a pod of a VM, stop the VM first."
            "4ea72dab3570411094c775900ecd7c05";
        VipNotAnnounced "vip-not-announced" Error in "incidents/vip.md"
            "no Service announces {subject}: {why}"
            "Compare the Service with the HelmChartConfig of RKE2's ingress controller: kube-vip announces the VIP only for a Service of type LoadBalancer. The nodes' own addresses still work."
            "4ec59c2ad57d43af949f85da7687e607";
        PodAddressesUsedUp "pod-addresses-used-up" Error in "incidents/platform.md"
            "{subject} has no address left for pods: {why}"
            "If the node has fewer pods than addresses, remove the files of pods that no longer exist from /var/lib/cni/networks/k8s-pod-network on that node (harvester#7471)."
            "ffd01337a0bf4249b0f602185141da43";
        RuleFinding "rule-finding" Warning in "incidents/README.md"
            "{subject}: {why}"
            "The rule that reported this describes the fix."
            "032bc78438674fb193ffc21fc342e7d4";
        ApplyStorm "apply-storm" Warning in "incidents/apply-storm.md"
            "{subject} re-applies everything every 15 s: {why}"
            "Fix the file shown, or remove it from the manifests directory."
            "b6a9cbcc13604b0ab967c31a79acae89";
    }
    "How the node is judged" {
        NodeReady "node-ready" Info
            "{manifests}; every required probe passes"
            "Nothing to do."
            "57b1bd257ec0447482bdfc3e32d813a0";
        ProbeUnknown "probe-unknown" Warning
            "{probe} is not known: {why}"
            "Unknown does not mean failed. Check the request shown, and why it got no answer."
            "088111511eaf4fb7bef8c2c3a5215107";
        ProbeRefused "probe-refused" Warning
            "{probe} is not known: {why}"
            "The credential lacks this permission (401, 403), which says nothing about the node. Check its rights, and whether it has expired."
            "432c3681629f4162beced7bed8fa13d6";
        ProbePending "probe-pending" Info
            "{probe}: {why}"
            "Wait. A probe counts only after it has given the same answer more than once."
            "aec42514bd0d5b0e99b9c9f1d296d785";
        ProbeOff "probe-off" Warning
            "{probe} is {why}"
            "If this probe is required, Windrow cannot report the node as Ready. To let the other probes decide, set `severity: wanted` together with `enabled: false`."
            "eff6ee7ec86c4b819edccddc0824ab18";
        RoleUnknown "role-unknown" Info
            "this node's role is still unknown (server or agent)"
            "This is normal before RKE2 is installed. Later, check for rke2-server.service or rke2-agent.service."
            "39e80d3ffef149d880a3aab2254dd891";
        ShuttingDown "shutting-down" Info
            "the machine is shutting down: {why}"
            "Nothing to do."
            "0e4943a1a6964b908dae5875188fae19";
        Upgrading "upgrading" Info
            "the node is being upgraded: {why}"
            "Wait for the upgrade. `windrow status` shows when it started."
            "148d434539c54188bb2b4a1838f4a27f";
        Draining "draining" Info
            "the node is being drained: {why}"
            "Wait for the drain, or uncordon the node. A drain that takes too long is usually blocked by a PodDisruptionBudget."
            "865eb223a28a473ba5f61f775ca453bf";
        Promoting "promoting" Info
            "the node is becoming a server: {why}"
            "Wait: RKE2 restarts as a server."
            "d44f68a2867c4a77908fef8b6b81d601";
        Restarting "restarting" Info
            "RKE2 is being restarted: {why}"
            "Wait: the unit is being restarted manually. `journalctl -u rke2-server -u rke2-agent` shows the progress."
            "6194711ce13ef0632e0280b3983a8ea1";
    }
    "Where the node stands" {
        BecameReady "became-ready" Notice
            "the node is Ready{was}: {why}"
            "Nothing to do: all functions of the node work."
            "0ade1aebde9d6bbfcce64af356444fa3";
        BecameSettingUp "became-setting-up" Notice
            "the node is setting up{was}, step \"{phase}\": {why}"
            "The boot is in progress, or a transition (an upgrade, a drain, a restart) explains the failures. Wait. `windrow status` shows the progress."
            "af03ffc959473d487d8dc8dfd98cc548";
        BecameDegraded "became-degraded" Warning
            "the node is {word}{was}: {why}"
            "The node works, but has a problem to fix. `windrow why` explains it."
            "4335426c07ae4ad95c26495c638dd228";
        BecameFailed "became-failed" Error
            "the node is {word}{was}, step \"{phase}\": {why}"
            "The node lost a dependency after it was Ready, or it will not recover without a fix. `windrow why` explains the reason."
            "d64e5688d5cb5d065e37c63151d860c4";
        BecameUnknown "became-unknown" Warning
            "the node is Unknown{was}, step \"{phase}\": {why}"
            "Unknown does not mean failed: Windrow could not check something. `windrow status -o json` shows each request under probes, and why it got no answer."
            "e4851752902d1105cbd2345554377951";
        BootStalled "boot-stalled" Warning
            "the boot has stalled, step \"{phase}\" ({expected}): nothing has moved for 20 minutes. {why}"
            "This does not prove a failure: a slow disk or registry looks the same. `windrow status` shows the first blocker, and `journalctl -b -u rke2-server -u rke2-agent -u rancherd` its cause."
            "294bb04298354426ab0f491ccbdf4965";
        BootStuck "boot-stuck" Warning
            "the boot is stuck, step \"{phase}\": {why}"
            "The node will not recover automatically. Fix this cause."
            "87991bff3e3646729487fc3cd2fa27b3";
        BootMoves "boot-moves" Notice
            "the boot moves again, step \"{phase}\": {why}"
            "Nothing to do."
            "6e69e48506c140849e1225963f7f8f6b";
        ProbeTurned "probe-turned" Info
            "the probe {probe} is {state}: {why}"
            "Nothing to do: changes of the node's readiness are logged separately."
            "0b8cdd9c05dc9a59a44a3ba97b307c06";
        ProbePasses "probe-passes" Info
            "the probe {probe} is passing again"
            "Nothing to do."
            "a118ce12efa79fc40ba40baffd37a8e9";
    }
    "What a probe found" {
        NoDefaultRoute "no-default-route" Warning
            "there is no default route: {why}"
            "Check the management interface's addresses and its gateway."
            "682c703845bc4949a95f5fa32f69c3bd";
        NoCarrier "no-carrier" Warning
            "no network link: {why}"
            "Check the cables, the bond and the switch."
            "b62ce29d35554a98b10e09d9277733e2";
        VipUnreachable "vip-unreachable" Error
            "the VIP does not answer: {why}"
            "Check that kube-vip runs on a server and that nothing else has the address."
            "a9f8330af1554a71b418d85b7d831e98";
        JoinUnreachable "join-unreachable" Warning
            "nodes cannot join over the VIP: {why}"
            "Make sure that port 9345 of the VIP reaches the supervisor of a server."
            "3158636c3f2f4b4e81c212e48a8db77d";
        DhcpClash "dhcp-client-clash" Warning in "incidents/node.md"
            "UDP port 68 is taken; kube-vip cannot get the VIP's address from DHCP: {why}"
            "Install with a static VIP (vipMode: static), or give the management interface a static address (harvester#8389)."
            "334a9d3b590f4030975e9e4ec2591fb2";
        RkeNotInstalled "rke-not-installed" Info
            "RKE2 is not installed: {why}"
            "This is normal on a first boot: rancherd installs RKE2. Later, run `journalctl -u rancherd -u rancher-system-agent`."
            "09b1a383d68f4505825f18c36bd17f52";
        RkeServiceDown "rke-service-down" Error
            "RKE2 does not run: {why}"
            "`journalctl -u rke2-server -u rke2-agent` shows the cause."
            "fff3c371d33d46b59ecd6fc9ce22360c";
        RkeCrashLoop "rke-crash-loop" Error
            "RKE2 is started again and again: {why}"
            "`journalctl -u rke2-server -u rke2-agent` shows why it ends."
            "9b25b94f3a2742c887cfeb9ed316cae6";
        SupervisorDown "supervisor-down" Error
            "RKE2's supervisor does not answer: {why}"
            "Check `journalctl -u rke2-server`. Port 9345 must be free."
            "d986ffca9efc40508edf731949155ab6";
        EtcdUnhealthy "etcd-unhealthy" Warning
            "etcd is not healthy: {why}"
            "Check the etcd pod's log and the latency of the disk. A quorum of servers must be up."
            "0a1c4754e5984a9aa39f71bd86fd5bfc";
        EtcdAlarm "etcd-alarm" Error
            "etcd refuses writes: {why}"
            "NOSPACE: find the data that fills etcd, or raise quota-backend-bytes, then restart rke2-server on each server in turn. CORRUPT: restore a snapshot, or remove the member that differs."
            "156a26dceb9d47079dcc94bef556407f";
        EtcdNotVoting "etcd-not-voting" Warning
            "this node has no vote in etcd: {why}"
            "`kubectl describe node` shows the condition EtcdIsVoter. While this node is a learner, do not remove another server. RKE2's log shows why it is not promoted."
            "6204d8dbb0ae4439824863eda501fe68";
        ApiNotReady "apiserver-not-ready" Error
            "kube-apiserver is not ready: {why}"
            "Check the kube-apiserver pod's log under /var/log/pods."
            "66991c6e7270492380171dad27f8b96e";
        ControllerManagerDown "controller-manager-down" Warning
            "kube-controller-manager does not work on this server: {why}"
            "Check its log in /var/log/pods. Another server does its work until that server stops too."
            "8f6323ea02b248ba82ce92a31931b2e0";
        SchedulerDown "scheduler-down" Warning
            "kube-scheduler does not work on this server: {why}"
            "Check its log in /var/log/pods. Another server does its work until that server stops too."
            "617ef86d0c004441b0bda42512ab5505";
        NoActiveLeader "no-active-leader" Error
            "no server is the active leader: {why}"
            "Check the component's log in /var/log/pods. Until it works, pods are not replaced or scheduled, and the state of Nodes and Deployments is not updated."
            "5f591c224aa042a59e870609f94fd848";
        KubeletUnhealthy "kubelet-unhealthy" Error
            "the kubelet is not healthy: {why}"
            "Check agent/logs/kubelet.log in RKE2's data directory."
            "a269a1f17da543998b275ff36944c68b";
        NodeNotReady "node-not-ready" Error
            "the Node object is not Ready: {why}"
            "`kubectl describe node` shows its conditions."
            "807315f4b1614005a34450203f669f63";
        NodeCondition "node-condition" Warning
            "the Node object reports {why}"
            "DiskPressure, MemoryPressure, PIDPressure: the kubelet evicts pods and accepts no new ones; free this resource. NetworkUnavailable: check the network plug-in's pods on this node."
            "163b5a85832a4e6c8a7f9e617f177b9f";
        RancherdAtWork "rancherd-at-work" Info
            "rancherd has not bootstrapped the node yet: {why}"
            "Wait: rancherd retries automatically. `journalctl -u rancherd` shows its progress. An instruction that runs for more than 15 minutes waits for a missing dependency."
            "734c9c9bc4ac4fd5b21d274b1219ccfb";
        RancherNotReady "rancher-not-ready" Error
            "Rancher is not available: {why}"
            "Check the pods: `kubectl -n cattle-system get pods`."
            "3763de856cf646d7bc806edd9c84de13";
        ChartNotReady "chart-not-ready" Info
            "Harvester's chart is not installed yet: {why}"
            "Wait. `kubectl -n fleet-local get managedcharts,bundles` shows more."
            "c540bf26e1154745b85b5bbebf45d13b";
        HarvesterNotReady "harvester-not-ready" Error
            "Harvester is not ready: {why}"
            "Check the pods in harvester-system and longhorn-system."
            "4565467a516b4075835e91a3f1508f4b";
        WebhookDown "webhook-down" Error
            "a webhook does not answer: {why}"
            "Check the pods of this service. Until it answers, all changes that this webhook checks are refused."
            "bde3d40a4923438cbd634d79c1f5c759";
        SettingMissing "setting-missing" Info
            "Harvester has no settings yet: {why}"
            "Wait. If this continues, check the log of the harvester pod in harvester-system."
            "ed0671cc1ffe4aaa85bd5273f187764b";
        StorageNetworkPending "storage-network-pending" Info
            "the storage network is not configured: {why}"
            "Wait. Every VM must be stopped and every volume detached first."
            "c76c816d6855405da064c33e90764d47";
        UpgradeControllerNotReady "upgrade-controller-not-ready" Info
            "system-upgrade-controller is not ready yet: {why}"
            "Wait. Later, check its pod in cattle-system and `kubectl -n cattle-system get plans.upgrade.cattle.io`."
            "e0ab526420e3435f87c376582c2155b8";
        ClusterNotProvisioned "cluster-not-provisioned" Warning
            "Rancher has not provisioned its own cluster: {why}"
            "Check `kubectl -n fleet-local get clusters.provisioning.cattle.io,machines.cluster.x-k8s.io`. Until then no node joins and no upgrade finishes."
            "79617a5f92ec479d8bdb1e593729c765";
        ChartsNotReady "charts-not-ready" Warning
            "a chart of the platform is not ready: {why}"
            "Check `kubectl -n fleet-local get managedcharts,bundles`. Harvester starts no upgrade while a ManagedChart is not ready."
            "546ac3460334472d9d90275e20074cd2";
        KubevirtNotReady "kubevirt-not-ready" Warning in "incidents/platform.md"
            "KubeVirt is not ready: {why}"
            "Check `kubectl -n harvester-system get kubevirt` and the pods of virt-operator, virt-api and virt-controller."
            "34f54e6234fe4e8985a65a765b71ed33";
        VirtHandlerSilent "virt-handler-silent" Warning
            "virt-handler does not report from this node: {why}"
            "Check the node's virt-handler pod in harvester-system. Until it reports, no VM can start here or migrate here."
            "eb12b9eebd9c41f0b9c12264a15b865c";
        LonghornNodeNotReady "longhorn-node-not-ready" Warning
            "Longhorn is not ready on this node: {why}"
            "Check the node's longhorn-manager pod in longhorn-system, and the node in Longhorn's console."
            "ad34c645e5be4151a543ff3f5efc5bd4";
        LonghornDiskUnusable "longhorn-disk-unusable" Warning
            "Longhorn cannot use a disk of this node: {why}"
            "Check in Longhorn's console that the disk is mounted and healthy, and has space."
            "0b4c5dc81bcf4d4882d91ba18efaef4b";
        AddonInTrouble "addon-in-trouble" Warning
            "a Harvester Addon is not deployed: {why}"
            "Check its HelmChart and the Job helm-install-NAME in its namespace. To retry a failed Addon, disable it and enable it again. Until all Addons are settled, Harvester refuses upgrades."
            "cb7477b3aa894c289396053482637bbf";
        CertificateExpiring "certificate-expiring" Warning
            "a certificate runs out: {why}"
            "Restart rke2-server or rke2-agent: RKE2 renews its certificates at each start."
            "124e606ed1f049cfa07467a20ff3b4ea";
        ComponentCertificateExpiring "component-certificate-expiring" Warning
            "a certificate of the control plane runs out: {why}"
            "RKE2 v1.30.13, v1.31.9, v1.32.5, v1.33.1 or newer: restart rke2-server. Older: delete the component's .crt and .key in its directory below server/tls, and its container (`crictl rm -f ID`)."
            "ec42e2085f464c499085b16712e41814";
        ClockNotSynchronised "clock-not-synchronised" Warning
            "the clock is not synchronised: {why}"
            "Check the NTP servers. Certificates and etcd need a correct clock."
            "170d1836577d402fb35939a86d71385a";
        DiskFull "disk-full" Error
            "{why}"
            "Free space there. Until then RKE2, etcd, the kubelet and Windrow cannot write, and RKE2 can stop."
            "656a441b293a4ff3b049a51fa4605f25";
        DiskLow "disk-low" Warning
            "the disk is almost full: {why}"
            "Free disk space. Otherwise the kubelet evicts pods and removes images, and etcd stops writing."
            "b5ff56a6d48240c9b0d8f82065d1ed40";
        InodesLow "inodes-low" Warning
            "the file system is almost out of inodes: {why}"
            "Remove files. Otherwise the kubelet evicts pods."
            "7f5b500170454a2489cfe0d53b3466e5";
        MemoryLow "memory-low" Warning
            "memory is almost used up: {why}"
            "Stop a VM or move it to another node."
            "76f3e4a1d6954effbc19f1428e081e64";
        LoadHigh "load-high" Warning
            "the load is high: {why}"
            "Find the processes that use the CPU or wait for the disk (`top`, `iostat`)."
            "30677f5f8a0242fcae7b1381d3f683ac";
        TemperatureHigh "temperature-high" Warning
            "the host is hot: {why}"
            "Check the fans, the air filters and the room. A CPU first slows down, and then switches itself off."
            "057248f8366140f89d65aaa666ca56c3";
        LinkErrors "link-errors" Warning
            "a network link loses packets: {why}"
            "Replace the cable or the transceiver, and try another port of the switch."
            "a04d371a170947df9c6bfc20fa0ffef9";
        HardwareChanged "hardware-changed" Warning
            "hardware is missing, or slower than it was: {why}"
            "Check the host. If the change was planned: `rm /var/lib/rancher/windrow/hardware.json; systemctl restart windrow`."
            "fcaeae70d3e7498ea021a00f8497e4c5";
        ProbeFailed "probe-failed" Error
            "{probe} fails: {why}"
            "This probe is defined in the configuration; ask its author for the fix."
            "c8e2e3d69f544834b17f4c896cb1efcb";
    }
}
