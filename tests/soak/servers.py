"""Three servers of a cluster: a network namespace each, with a member of etcd and a kube-apiserver that asks that member alone. What
`partitions` and `partitions-gates` share. The namespace in which this runs is the switch between them.
"""
import argparse, base64, collections, http.client, json, os, random, signal, ssl, subprocess, sys, threading, time
from pathlib import Path

CACHE = Path(os.environ.get("WINDROW_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "windrow"))
ASSETS = CACHE / "assets"
NET = "10.80.0."
STATE = "var/lib/rancher/windrow"
MERGE = "application/merge-patch+json"
STARTED = time.monotonic()


def say(text):
    print(f"{time.monotonic() - STARTED:6.0f} s  {text}", flush=True)


def run(*command, **how):
    return subprocess.run([str(one) for one in command], check=True, capture_output=True, text=True, **how).stdout


class Pki:
    def __init__(self, place):
        self.place = place
        place.mkdir()
        run("openssl", "genrsa", "-out", place / "accounts.key", "2048")
        curve = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        run("openssl", "req", "-x509", "-newkey", *curve, "-days", "3", "-subj", "/CN=ca", "-keyout", place / "ca.key", "-out", place / "ca.crt")
        addresses = ",".join(["IP:127.0.0.1"] + [f"IP:{NET}{number}" for number in (1, 2, 3)])
        leaves = [("serving", "/CN=kube-apiserver", f"subjectAltName={addresses}\nextendedKeyUsage=serverAuth"),
                  *((who, f"/O=system:masters/CN={who}", "extendedKeyUsage=clientAuth") for who in ("player", "server1", "server2", "server3"))]
        for name, subject, extensions in leaves:
            (place / f"{name}.ext").write_text(extensions + "\n")
            run("openssl", "req", "-newkey", *curve, "-subj", subject, "-keyout", place / f"{name}.key", "-out", place / f"{name}.csr")
            run("openssl", "x509", "-req", "-in", place / f"{name}.csr", "-CA", place / "ca.crt", "-CAkey", place / "ca.key", "-set_serial",
                random.getrandbits(60), "-days", "3", "-extfile", place / f"{name}.ext", "-out", place / f"{name}.crt")

    def kubeconfig(self, who):
        text = lambda name: base64.b64encode((self.place / name).read_bytes()).decode()
        return json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "default",
            "clusters": [{"name": "default", "cluster": {"server": "https://127.0.0.1:6443", "certificate-authority-data": text("ca.crt")}}],
            "users": [{"name": "default", "user": {"client-certificate-data": text(f"{who}.crt"), "client-key-data": text(f"{who}.key")}}],
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}]})


class Server:
    """A machine: a network namespace with a link to the switch, which is this process' own namespace."""

    def __init__(self, number, place, pki):
        self.number, self.name, self.pki = number, f"server{number}", pki
        self.place = place / self.name
        self.root = self.place / "root"
        self.net = f"soak-{os.getpid()}-{number}"
        self.children, self.persons = {}, 0
        self.root.mkdir(parents=True)
        run("ip", "netns", "add", self.net)
        run("ip", "-n", self.net, "link", "set", "lo", "up")
        run("ip", "link", "add", f"s{number}", "type", "veth", "peer", "name", "eth0", "netns", self.net)
        run("ip", "link", "set", f"s{number}", "master", "br0", "up")
        run("ip", "-n", self.net, "address", "add", f"{NET}{number}/24", "dev", "eth0")
        run("ip", "-n", self.net, "link", "set", "eth0", "up")
        run("ip", "-n", self.net, "route", "add", "default", "via", f"{NET}254")

    def start(self, name, *command):
        log = open(self.place / f"{name}.log", "w")
        command = ["ip", "netns", "exec", self.net, *(str(one) for one in command)]
        self.children[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def start_etcd(self):
        own = f"http://{NET}{self.number}"
        members = ",".join(f"server{number}=http://{NET}{number}:2380" for number in (1, 2, 3))
        self.start("etcd", "etcd", "--name", self.name, f"--data-dir={self.place}/etcd", f"--listen-client-urls={own}:2379",
                   f"--advertise-client-urls={own}:2379", f"--listen-peer-urls={own}:2380", f"--initial-advertise-peer-urls={own}:2380",
                   f"--initial-cluster={members}", "--initial-cluster-state=new", "--unsafe-no-fsync", "--heartbeat-interval=300",
                   "--election-timeout=3000")

    def start_apiserver(self):
        self.start("kube-apiserver", *self.apiserver())

    def apiserver(self):
        """Its command line."""
        policy = self.place / "audit.yaml"
        policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n"
                          "- {level: None, verbs: [get, list, watch]}\n"
                          "- {level: RequestResponse, resources: [{group: kubevirt.io}, {group: coordination.k8s.io}, {group: harvesterhci.io}]}\n"
                          "- {level: None}\n")
        pki = self.pki.place
        return [ASSETS / "k8s-1.36/current/kube-apiserver", f"--etcd-servers=http://{NET}{self.number}:2379",
                "--secure-port=6443", "--bind-address=0.0.0.0", f"--advertise-address={NET}{self.number}", f"--cert-dir={self.place}/apiserver",
                f"--tls-cert-file={pki}/serving.crt", f"--tls-private-key-file={pki}/serving.key", f"--client-ca-file={pki}/ca.crt",
                f"--service-account-key-file={pki}/accounts.key", f"--service-account-signing-key-file={pki}/accounts.key",
                "--service-account-issuer=soak", "--service-cluster-ip-range=10.43.0.0/16", "--anonymous-auth=false",
                "--authorization-mode=Node,RBAC", "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
                f"--audit-policy-file={policy}", f"--audit-log-path={self.place}/audit.log", "--audit-log-maxsize=100000",
                # The history is read from etcd at the end.
                "--storage-media-type=application/json", "--etcd-compaction-interval=0"]

    def write(self, name, text, mode=0o644):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def start_daemon(self, program, configuration, *environment):
        self.write("etc/machine-id", f"{self.number:032x}\n")
        self.write("etc/rancher/rke2/config.yaml", f"node-name: {self.name}\n")
        self.write("etc/rancher/rke2/rke2.yaml", self.pki.kubeconfig(self.name), 0o600)
        (self.root / "var/lib/rancher/rke2/server/manifests").mkdir(parents=True, exist_ok=True)
        self.write("etc/windrow/conf.d/50-soak.yaml", configuration + "outlets: {nodeCondition: false, nodeEvents: false}\n")
        self.start("windrow", "env", "WINDROW_LOG=windrow=debug", *environment, program + "d", "--root", self.root)

    def person(self, program, *arguments):
        """Somebody at this machine says something to Windrow. Returns the name of their process."""
        self.persons += 1
        name = f"person{self.persons}"
        self.start(name, program, "--root", self.root, *arguments)
        return name

    def daemon(self, sent):
        # `ip netns exec` becomes the program.
        self.children["windrow"].send_signal(sent)

    def end(self):
        for child in self.children.values():
            child.send_signal(signal.SIGCONT)
            # The stand-in of systemd ends what it started.
            child.terminate()
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        subprocess.run(["ip", "netns", "delete", self.net], capture_output=True)


class Player:
    """Asks whichever kube-apiserver answers."""

    def __init__(self, pki):
        self.context = ssl.create_default_context(cafile=pki.place / "ca.crt")
        self.context.load_cert_chain(pki.place / "player.crt", pki.place / "player.key")

    def once(self, number, method, path, body, kind, patience):
        link = http.client.HTTPSConnection(f"{NET}{number}", 6443, timeout=patience, context=self.context)
        text = json.dumps(body) if isinstance(body, dict) else body or ""
        link.request(method, path, text.encode(), {"content-type": kind})
        answer = link.getresponse()
        text = answer.read()
        link.close()
        return answer.status, text

    def ask(self, method, path, body=None, kind="application/json", patience=4):
        for number in random.sample((1, 2, 3), 3):
            try:
                status, text = self.once(number, method, path, body, kind, patience)
                if status < 500 and status != 429:
                    return status, json.loads(text)
            except (OSError, ValueError, http.client.HTTPException):
                pass
        return 0, {}

    def sure(self, method, path, body=None, kind="application/json", fine=(200, 201, 404, 409)):
        for _ in range(300):
            status, answer = self.ask(method, path, body, kind)
            if status in fine:
                return answer
            time.sleep(1)
        raise SystemExit(f"{method} {path}: {status} {answer}")


class Faults:
    """One after the other, drawn by seed."""

    def __init__(self, servers, seed, out, is_at_work):
        self.servers, self.chance, self.is_at_work, self.stop = servers, random.Random(seed), is_at_work, threading.Event()
        self.file = open(out / "faults.txt", "w", buffering=1)
        self.counts = collections.Counter()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self):
        while not self.stop.is_set():
            how = self.chance.choice((self.cut_off, self.cut_between, self.flaps, self.speaks_unheard, self.loses_packets, self.is_slow,
                                      self.resets, self.stands_still, self.stands_still, self.stands_still))
            at_work = [one for one in self.servers if self.is_at_work(one)]
            undo = how(self.chance.choice(at_work or self.servers), self.chance.uniform(15, 110))
            undo()
            self.say("all is mended")
            self.stop.wait(self.chance.uniform(5, 40))

    def say(self, text):
        self.file.write(f"{time.time():.3f} {text}\n")

    def during(self, name, text, seconds):
        self.counts[name] += 1
        self.say(text)
        self.stop.wait(seconds)

    def cut_off(self, server, seconds):
        run("ip", "link", "set", f"s{server.number}", "down")
        self.during("cut off", f"{server.name} is cut off", seconds)
        return lambda: run("ip", "link", "set", f"s{server.number}", "up")

    def cut_between(self, server, seconds):
        other = self.chance.choice([one for one in self.servers if one is not server])
        for one, two in ((server, other), (other, server)):
            run("ip", "-n", one.net, "route", "add", "blackhole", f"{NET}{two.number}/32")
        self.during("cut between two", f"{server.name} and {other.name} are cut from each other", seconds)

        def mend():
            for one, two in ((server, other), (other, server)):
                run("ip", "-n", one.net, "route", "delete", "blackhole", f"{NET}{two.number}/32")
        return mend

    def flaps(self, server, seconds):
        """Its link goes and comes, each time for some seconds: requests and their answers are lost one by one."""
        until = time.monotonic() + seconds
        self.counts["link that flaps"] += 1
        self.say(f"the link of {server.name} flaps")
        while time.monotonic() < until and not self.stop.is_set():
            for state in ("down", "up"):
                run("ip", "link", "set", f"s{server.number}", state)
                self.stop.wait(self.chance.uniform(0.2, 4))
        return lambda: run("ip", "link", "set", f"s{server.number}", "up")

    def speaks_unheard(self, server, seconds):
        """One direction alone: it hears the others, and nobody hears it."""
        return self.filtered("is not heard", f"{server.name} hears, and is not heard", server, seconds, "OUTPUT", "-o", "eth0", "-j", "DROP")

    def loses_packets(self, server, seconds):
        share = self.chance.uniform(0.05, 0.4)
        return self.filtered("packets lost", f"{server.name} loses {share:.0%} of what is sent to it", server, seconds,
                             "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", f"{share:.3f}", "-j", "DROP")

    def resets(self, server, seconds):
        """Connections end in the middle, with a reset as a proxy or a firewall sends it."""
        share = self.chance.uniform(0.01, 0.1)
        return self.filtered("connections reset", f"connections to {server.name} are reset, by {share:.0%} of their packets", server, seconds,
                             "INPUT", "-i", "eth0", "-p", "tcp", "-m", "statistic", "--mode", "random", "--probability", f"{share:.3f}",
                             "-j", "REJECT", "--reject-with", "tcp-reset")

    def filtered(self, name, text, server, seconds, chain, *rule):
        iptables = ("ip", "netns", "exec", server.net, "iptables", "-w")
        run(*iptables, "-A", chain, *rule)
        self.during(name, text, seconds)
        return lambda: run(*iptables, "-D", chain, *rule)

    def is_slow(self, server, seconds):
        """A queue before the server and one behind it: requests and answers are late by seconds."""
        kbit = self.chance.uniform(40, 400)
        ends = (("tc", "-n", server.net), "eth0"), (("tc",), f"s{server.number}")
        for tc, link in ends:
            run(*tc, "qdisc", "add", "dev", link, "root", "handle", "1:", "htb", "default", "1", "r2q", "1")
            run(*tc, "class", "add", "dev", link, "parent", "1:", "classid", "1:1", "htb", "rate", f"{kbit:.0f}kbit")
        self.during("slow link", f"the link of {server.name} takes {kbit:.0f} kbit/s", seconds)

        def mend():
            for tc, link in ends:
                run(*tc, "qdisc", "delete", "dev", link, "root")
        return mend

    def stands_still(self, server, seconds):
        # Most tells the one that is at work, for longer than its lease counts.
        at_work = [one for one in self.servers if self.is_at_work(one)]
        server = (at_work or [server])[0]
        server.daemon(signal.SIGSTOP)
        self.during("daemon stands still", f"the daemon of {server.name} stands still", seconds + 60 * bool(at_work))
        return lambda: server.daemon(signal.SIGCONT)


def switch(out):
    """The switch between the servers, and their certificates."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "address", "add", f"{NET}254/24", "dev", "br0")
    run("ip", "link", "set", "br0", "up")
    out.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    return Pki(out / "pki")


def wait_for_all(player):
    for number in (1, 2, 3):
        for _ in range(300):
            try:
                if player.once(number, "GET", "/readyz", None, "", 5)[0] == 200:
                    break
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(1)
        else:
            raise SystemExit(f"kube-apiserver of server{number} does not come up")


def history(out, *keys):
    """Every revision of these keys, and of what lies below those that end in a slash: from etcd, asked through its gateway for HTTP."""
    events = []
    encode = lambda text: base64.b64encode(text.encode()).decode()
    for key in keys:
        create = {"key": encode(key), "start_revision": "1"}
        if key.endswith("/"):
            create["range_end"] = encode(key[:-1] + "0")
        link = http.client.HTTPConnection(f"{NET}1", 2379, timeout=10)
        link.request("POST", "/v3/watch", json.dumps({"create_request": create}))
        answer = link.getresponse()
        try:
            for line in answer:
                for event in json.loads(line)["result"].get("events", []):
                    kv = event["kv"]
                    value = base64.b64decode(kv.get("value", "")).decode() or "null"
                    events.append({"revision": int(kv["mod_revision"]), "key": base64.b64decode(kv["key"]).decode(), "value": json.loads(value)})
        except TimeoutError:
            pass  # It was all.
    events.sort(key=lambda event: event["revision"])
    (out / "history.json").write_text("".join(json.dumps(event) + "\n" for event in events))


def recorded(out):
    """That history, and from kube-apiserver's audit logs who wrote which revision, when it was received and answered; and how many were
    tried, by user and class of answer."""
    events = [json.loads(line) for line in (out / "history.json").read_text().splitlines()]
    written, tried = {}, collections.Counter()
    for number in (1, 2, 3):
        for line in (out / f"server{number}/audit.log").read_text().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            asked = event.get("requestObject")
            if "dryRun=" in event["requestURI"] or isinstance(asked, dict) and asked.get("dryRun"):
                continue
            user, code = event["user"]["username"], event.get("responseStatus", {}).get("code", 0)
            answer = event.get("responseObject") or {}
            if event["verb"] in ("patch", "update", "create", "delete"):
                tried[user, code // 100] += 1
                version = answer.get("metadata", {}).get("resourceVersion")
                if code < 300 and version:
                    written.setdefault(int(version), (user, event["requestReceivedTimestamp"], event["stageTimestamp"]))
    return events, written, tried


def main(text, play, judge):
    """The program: plays in a network namespace of its own, and judges what was recorded."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--windrow")
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    out = Path(args.out).resolve()
    wrong = []
    if not args.judge:
        if not args.inside:
            os.execvp("unshare", ["unshare", "--net", "--", *sys.argv, "--inside"])
        wrong = play(args, out)
    wrong += judge(out)
    for line in wrong:
        print("wrong:", line)
    sys.exit(1 if wrong else 0)
