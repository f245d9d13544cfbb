//! Manifests directories, and their changes between the deploy controller's passes: the inputs on which the simulated
//! controller is held to the real one.
//!
//! `@` stands for the directory's name, so that all of them can be in one cluster at a time. What a definition brings
//! is used in the same pass only in its own file, or after enough further objects that it is served by then
//! (`behind`): whether it is served a moment later is chance, here and in the simulation.

/// One change of a directory.
#[derive(Clone, Copy)]
pub(crate) enum Edit {
    /// Writes a file.
    Write(&'static str, &'static str),
    /// Removes an entry.
    Remove(&'static str),
    /// Makes a link that leads nowhere.
    Dangle(&'static str),
    /// Kinds come from outside. All directories that need some wait here for one another: a kind comes for all of them
    /// or for none.
    Bring(&'static [Kind]),
}

use Edit::{Dangle, Remove, Write};

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
}

const SERVICE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Service",
    namespaced: true,
};

const POD: Kind = Kind {
    kind: "Pod",
    ..SERVICE
};

/// A kind that the directory defines itself.
const fn own(kind: &'static str) -> Kind {
    Kind {
        group: "@.example.com",
        version: "v1",
        kind,
        namespaced: true,
    }
}

/// A directory.
#[derive(Clone, Copy)]
pub(crate) struct Directory {
    /// Its name, with which all its Addons' and objects' names begin.
    pub(crate) name: &'static str,
    /// Kinds to look for in the end, beside Kubernetes' most common ones.
    pub(crate) kinds: &'static [Kind],
    /// Changes, and how many passes to wait for after them.
    pub(crate) steps: &'static [(&'static [Edit], usize)],
}

/// The last file of every directory: it is applied in the last pass, after everything else in it.
pub(crate) const END: Edit = Write(
    "@-zz.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: @-zz, namespace: default}\n",
);

macro_rules! config_map {
    ($name:literal) => {
        concat!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: @-",
            $name,
            ", namespace: default}\n"
        )
    };
    ($name:literal, $value:literal) => {
        concat!(config_map!($name), "data: {value: \"", $value, "\"}\n")
    };
}
macro_rules! bare_pod {
    ($names:literal) => {
        concat!(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: @-pod, namespace: default}\nspec: {",
            $names,
            ", containers: [{name: web, image: site/web}]}\n"
        )
    };
}
macro_rules! custom {
    ($kind:literal, $name:literal) => {
        custom!($kind, $name, "default")
    };
    ($kind:literal, $name:literal, $namespace:literal) => {
        custom!("", $kind, $name, $namespace)
    };
    ($group:literal, $kind:literal, $name:literal, $namespace:literal) => {
        concat!(
            "apiVersion: ",
            $group,
            "@.example.com/v1\nkind: ",
            $kind,
            "\nmetadata: {name: @-",
            $name,
            ", namespace: ",
            $namespace,
            "}\nspec: {size: 3}\n"
        )
    };
}
macro_rules! definition {
    ($kind:literal, $plural:literal) => {
        definition!("", $kind, $plural)
    };
    ($group:literal, $kind:literal, $plural:literal) => {
        concat!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ",
            $plural,
            ".",
            $group,
            "@.example.com}\nspec:\n  group: ",
            $group,
            "@.example.com\n  scope: Namespaced\n  names: {kind: ",
            $kind,
            ", plural: ",
            $plural,
            "}\n  versions:\n    - name: v1\n      served: true\n      storage: true\n      schema: ",
            "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n"
        )
    };
}
macro_rules! three {
    ($a:literal, $b:literal, $c:literal) => {
        concat!(
            config_map!($a),
            "---\n",
            config_map!($b),
            "---\n",
            config_map!($c)
        )
    };
}

/// Every directory.
pub(crate) const DIRECTORIES: &[Directory] = &[
    // One file needs a kind that a later file brings, three need kinds that nothing brings.
    Directory {
        name: "storm",
        kinds: &[own("Pear")],
        steps: &[
            (
                &[
                    Write("@-bowl.yaml", custom!("Pear", "bowl")),
                    Write("@-crd.yaml", definition!("Pear", "pears")),
                    Write(
                        "@-late-alpha.yaml",
                        custom!("lost.", "Alpha", "late", "default"),
                    ),
                    Write(
                        "@-late-beta.yaml",
                        custom!("lost.", "Beta", "late", "default"),
                    ),
                    Write(
                        "@-late-gamma.yaml",
                        custom!("lost.", "Gamma", "late", "default"),
                    ),
                    Write("@-plain-1.yaml", three!("a1", "b1", "c1")),
                    Write("@-plain-2.yaml", three!("a2", "b2", "c2")),
                    Write("@-plain-3.yaml", three!("a3", "b3", "c3")),
                    Write("@-plain-4.yaml", three!("a4", "b4", "c4")),
                    Write("@-plain-5.yaml", three!("a5", "b5", "c5")),
                    Write("@-plain-6.yaml", three!("a6", "b6", "c6")),
                ],
                7,
            ),
            (&[END], 1),
        ],
    },
    // As Rook's examples lie: what is wanted before what it is made of.
    Directory {
        name: "rook",
        kinds: &[own("Cluster"), own("Driver")],
        steps: &[
            (
                &[
                    Write("@-cluster.yaml", custom!("Cluster", "main", "@-system")),
                    Write(
                        "@-common.yaml",
                        "apiVersion: v1\nkind: Namespace\nmetadata: {name: @-system}\n---\n\
                         apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: @-operator, namespace: @-system}\n---\n\
                         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: @-operator}\n\
                         rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n",
                    ),
                    Write(
                        "@-crds.yaml",
                        concat!(
                            definition!("Cluster", "clusters"),
                            "---\n",
                            definition!("Driver", "drivers")
                        ),
                    ),
                    Write(
                        "@-operator.yaml",
                        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: @-operator, namespace: @-system}\nspec:\n  \
                         replicas: 1\n  selector: {matchLabels: {app: operator}}\n  template:\n    \
                         metadata: {labels: {app: operator}}\n    \
                         spec: {containers: [{name: operator, image: operator.invalid/operator:1}]}\n",
                    ),
                ],
                3,
            ),
            (
                &[
                    END,
                    Write("@-driver.yaml", custom!("Driver", "rbd", "@-system")),
                ],
                1,
            ),
        ],
    },
    // Two files of one Addon; the later pass of one takes the objects of the other away.
    Directory {
        name: "collide",
        kinds: &[],
        steps: &[
            (&[Write("@-same.yaml", config_map!("one", "1"))], 1),
            (&[Write("@-same.more.yaml", config_map!("two", "1"))], 1),
            (
                &[END, Write("sub/@-same.yml", config_map!("three", "1"))],
                1,
            ),
        ],
    },
    // One bad document refuses the whole file; a name that no Addon can have, and an object that no server takes.
    Directory {
        name: "bad",
        kinds: &[],
        steps: &[
            (
                &[
                    Write("@-good.yaml", config_map!("good")),
                    Write("@-brace.yaml", concat!(config_map!("brace"), "---\n}\n")),
                    Write(
                        "@-separator.yaml",
                        concat!(config_map!("separator"), "--- foo\n"),
                    ),
                    Write(
                        "@-untyped.yaml",
                        "metadata: {name: @-untyped}\ndata: {a: b}\n",
                    ),
                    Write(
                        "@-unversioned.yaml",
                        concat!(
                            config_map!("with"),
                            "---\nkind: ConfigMap\nmetadata: {name: @-un}\n"
                        ),
                    ),
                    Write(
                        "@-unnamed.yaml",
                        "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {a: b}}\n",
                    ),
                    Write("@-Upper.yaml", config_map!("upper")),
                    Write(
                        "@-names.yaml",
                        concat!(
                            config_map!("Na_me"),
                            "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: @-a.b, namespace: default}\n",
                            "spec:\n  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n    ",
                            "spec: {containers: [{name: a, image: image.invalid/a:1}]}\n---\n",
                            config_map!("name")
                        ),
                    ),
                    Write("@-empty.yaml", "# nothing\n---\n"),
                ],
                2,
            ),
            (
                &[
                    Remove("@-Upper.yaml"),
                    Remove("@-names.yaml"),
                    Remove("@-untyped.yaml"),
                    Remove("@-unversioned.yaml"),
                    Remove("@-unnamed.yaml"),
                    Remove("@-separator.yaml"),
                    Write("@-brace.yaml", config_map!("brace")),
                ],
                1,
            ),
            (&[END], 1),
        ],
    },
    // Lists are opened once.
    Directory {
        name: "list",
        kinds: &[],
        steps: &[
            (
                &[
                    Write(
                        "@-list.yaml",
                        "apiVersion: v1\nkind: List\nitems:\n\
                         - {apiVersion: v1, kind: ConfigMap, metadata: {name: @-l2, namespace: default}}\n\
                         - {apiVersion: v1, kind: ConfigMap, metadata: {name: @-l1, namespace: default}}\n",
                    ),
                    Write(
                        "@-typed.yaml",
                        "apiVersion: v1\nkind: ConfigMapList\nitems:\n\
                         - {apiVersion: v1, kind: ConfigMap, metadata: {name: @-t1, namespace: default}}\n\
                         - {metadata: {name: @-t2, namespace: default}}\n",
                    ),
                    Write(
                        "@-nested.yaml",
                        "apiVersion: v1\nkind: List\nitems:\n\
                         - apiVersion: v1\n  kind: List\n  items:\n  \
                         - {apiVersion: v1, kind: ConfigMap, metadata: {name: @-n1, namespace: default}}\n\
                         - {apiVersion: v1, kind: ConfigMap, metadata: {name: @-n2, namespace: default}}\n",
                    ),
                ],
                2,
            ),
            (&[Remove("@-nested.yaml")], 1),
            (&[END], 1),
        ],
    },
    // A namespace that comes later.
    Directory {
        name: "space",
        kinds: &[],
        steps: &[
            (
                &[
                    Write(
                        "@-a.yaml",
                        concat!(
                            config_map!("there"),
                            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: @-inside, namespace: @-late}\n"
                        ),
                    ),
                    Write("@-b.yaml", config_map!("b")),
                ],
                2,
            ),
            (
                &[Write(
                    "@-c.yaml",
                    "apiVersion: v1\nkind: Namespace\nmetadata: {name: @-late}\n",
                )],
                3,
            ),
            (&[END], 1),
        ],
    },
    // The API server chooses a name, in every pass again.
    Directory {
        name: "generate",
        kinds: &[],
        steps: &[
            (
                &[
                    Write("@-bad.yaml", custom!("Nowhere", "bad")),
                    Write(
                        "@-made.yaml",
                        "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: @-made-, namespace: default}\n",
                    ),
                ],
                2,
            ),
            (&[Remove("@-bad.yaml")], 2),
            (&[END], 1),
        ],
    },
    // A definition and its object in one file, in either order.
    Directory {
        name: "both",
        kinds: &[own("Fig")],
        steps: &[
            (
                &[
                    Write(
                        "@-after.yaml",
                        concat!(definition!("Fig", "figs"), "---\n", custom!("Fig", "after")),
                    ),
                    Write(
                        "@-before.yaml",
                        concat!(
                            custom!("other.", "Nut", "before", "default"),
                            "---\n",
                            definition!("other.", "Nut", "nuts")
                        ),
                    ),
                ],
                3,
            ),
            (&[END], 1),
        ],
    },
    // A bare Pod is refused while a class that it names is missing. Once both are there it would be asked about by a webhook of
    // `tests/cases`, which share the cluster.
    Directory {
        name: "pods",
        kinds: &[POD],
        steps: &[
            (
                &[
                    Write(
                        "@-pod.yaml",
                        bare_pod!("priorityClassName: @-high, runtimeClassName: @-kata"),
                    ),
                    Write("@-one.yaml", config_map!("one")),
                ],
                2,
            ),
            (
                &[Write(
                    "@-classes.yaml",
                    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: @-high}\nvalue: 1\n",
                )],
                2,
            ),
            (&[END], 1),
        ],
    },
    // What leaves a file leaves the cluster, unless it says otherwise; a file that leaves leaves all behind.
    Directory {
        name: "prune",
        kinds: &[own("Plum")],
        steps: &[
            (
                &[
                    Write("@-crd.yaml", definition!("Plum", "plums")),
                    Write("@-few.yaml", three!("f1", "f2", "f3")),
                    Write("@-gone.yaml", config_map!("gone")),
                    Write(
                        "@-kept.yaml",
                        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: @-kept\n  namespace: default\n  \
                         labels: {objectset.rio.cattle.io/prune: \"false\"}\n",
                    ),
                    Write("@-whole.yaml", three!("w1", "w2", "w3")),
                ],
                1,
            ),
            (
                &[
                    Write(
                        "@-few.yaml",
                        concat!(config_map!("f3", "new"), "---\n", config_map!("f1")),
                    ),
                    Remove("@-gone.yaml"),
                    Write("@-kept.yaml", ""),
                    Write("@-plum.yaml", custom!("Plum", "p")),
                    Write("@-whole.yaml", "# all of it\n"),
                ],
                1,
            ),
            // Another kind in place of the former.
            (&[END, Write("@-plum.yaml", config_map!("no-plum"))], 1),
        ],
    },
    // On a node that has booted a file is called otherwise, and an object moves to another file: the new file of the one takes the objects
    // over, and the old file of the other deletes what left it before the new one creates it again.
    Directory {
        name: "move",
        kinds: &[],
        steps: &[
            (
                &[
                    Write("@-file.yaml", config_map!("whole")),
                    Write(
                        "@-split.yaml",
                        concat!(config_map!("stays"), "---\n", config_map!("moves")),
                    ),
                ],
                1,
            ),
            (
                &[
                    Remove("@-file.yaml"),
                    Write("@-xx-file.yaml", config_map!("whole")),
                    Write("@-split.yaml", config_map!("stays")),
                    Write("@-xx-split.yaml", config_map!("moves")),
                ],
                1,
            ),
            (&[END], 1),
        ],
    },
    // Markers, before and after.
    Directory {
        name: "hold",
        kinds: &[],
        steps: &[
            (
                &[
                    Write("@-early.yaml", config_map!("early", "1")),
                    Write("@-early.yaml.skip", "held"),
                    Write("@-late.yaml", config_map!("late", "1")),
                    Write("@-loose.yaml", config_map!("loose", "1")),
                    Write("@-loose.skip", "held"),
                    Write("sub/@-early.yaml", config_map!("sub", "1")),
                ],
                1,
            ),
            (
                &[
                    Write("@-late.yaml.skip", "held"),
                    Write("@-late.yaml", config_map!("late", "2")),
                ],
                1,
            ),
            (
                &[Remove("@-early.yaml.skip"), Remove("sub/@-early.yaml")],
                1,
            ),
            (&[Remove("@-late.yaml.skip")], 1),
            // The same bytes at another time.
            (&[END, Write("@-late.yaml", config_map!("late", "2"))], 1),
        ],
    },
    // Kinds in their order of appearance, what cannot be is left out, the rest is there.
    Directory {
        name: "partial",
        kinds: &[SERVICE],
        steps: &[
            (
                &[
                    Write(
                        "@-mixed.yaml",
                        concat!(
                            config_map!("m2"),
                            "---\n",
                            custom!("Nowhere", "m"),
                            "---\napiVersion: v1\nkind: Secret\nmetadata: {name: @-s, namespace: default}\n",
                            "stringData: {a: b}\n",
                            "---\napiVersion: v1\nkind: Service\nmetadata: {name: @-no-ports, namespace: default}\n",
                            "spec: {selector: {app: a}}\n",
                            "---\napiVersion: v1\nkind: Service\nmetadata: {name: @-headless, namespace: default}\n",
                            "spec: {clusterIP: None, selector: {app: a}}\n",
                            "---\n",
                            config_map!("m1"),
                            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: @-lost, namespace: @-nowhere}\n"
                        ),
                    ),
                    Write("@-next.yaml", config_map!("next")),
                ],
                2,
            ),
            (
                &[Write(
                    "@-mixed.yaml",
                    concat!(config_map!("m1"), "---\n", config_map!("m3")),
                )],
                1,
            ),
            (&[END], 1),
        ],
    },
    // A link that leads nowhere stops whole passes.
    Directory {
        name: "dangle",
        kinds: &[],
        steps: &[
            (
                &[Write("@-a.yaml", config_map!("a")), Dangle("@-note.txt")],
                1,
            ),
            (&[Remove("@-note.txt")], 1),
            (
                &[Dangle("@-note.txt"), Write("@-b.yaml", config_map!("b"))],
                1,
            ),
            (&[Remove("@-note.txt"), END], 1),
        ],
    },
    // What a file brings is there for the files behind it: a namespace at once, a kind some objects later.
    Directory {
        name: "behind",
        kinds: &[own("Plum")],
        steps: &[
            (
                &[
                    Write(
                        "@-a.yaml",
                        "apiVersion: v1\nkind: Namespace\nmetadata: {name: @-space}\n",
                    ),
                    Write(
                        "@-b.yaml",
                        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: @-b, namespace: @-space}\n",
                    ),
                    Write("@-c.yaml", definition!("Plum", "plums")),
                    Write("@-d1.yaml", three!("a1", "b1", "c1")),
                    Write("@-d2.yaml", three!("a2", "b2", "c2")),
                    Write("@-d3.yaml", three!("a3", "b3", "c3")),
                    Write("@-d4.yaml", three!("a4", "b4", "c4")),
                    Write("@-d5.yaml", three!("a5", "b5", "c5")),
                    Write("@-d6.yaml", three!("a6", "b6", "c6")),
                    Write("@-plum.yaml", custom!("Plum", "plum", "@-space")),
                ],
                1,
            ),
            (&[END], 1),
        ],
    },
    // One object twice in a file, and in two files.
    Directory {
        name: "twice",
        kinds: &[],
        steps: &[
            (
                &[
                    Write(
                        "@-one.yaml",
                        concat!(config_map!("x", "first"), "---\n", config_map!("x", "last")),
                    ),
                    Write(
                        "@-two.yaml",
                        concat!(config_map!("y", "two"), "---\n", config_map!("z", "two")),
                    ),
                    Write("@-zoo.yaml", config_map!("y", "zoo")),
                ],
                2,
            ),
            (&[END, Write("@-two.yaml", config_map!("z", "two"))], 1),
        ],
    },
];

/// A kind that is served too late for its pass, however many objects come before the file that needs it.
pub(crate) const LATE: Directory = Directory {
    name: "late",
    kinds: &[own("Plum")],
    steps: &[
        (
            &[
                Write("@-c.yaml", definition!("Plum", "plums")),
                Write("@-d1.yaml", three!("a1", "b1", "c1")),
                Write("@-d2.yaml", three!("a2", "b2", "c2")),
                Write("@-d3.yaml", three!("a3", "b3", "c3")),
                Write("@-plum.yaml", custom!("Plum", "plum")),
            ],
            2,
        ),
        (&[END], 1),
    ],
};
