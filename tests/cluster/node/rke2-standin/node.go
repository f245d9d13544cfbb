package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// node is what the command line says about the machine.
type node struct {
	root, binaries, name, port, etcdPort string
	activeEarly                          bool
}

// at puts a path below the directory taken for /.
func (n *node) at(path string) string { return filepath.Join(n.root, path) }

// program finds a child: beside this one first, then in PATH.
func (n *node) program(name string) string {
	if path := filepath.Join(n.binaries, name); syscall.Access(path, 1) == nil {
		return path
	}
	return name
}

// child is etcd or kube-apiserver. It ends with this process, whatever ends that.
type child struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

type children []child

// stop ends them in reverse order of their start, so that kube-apiserver still finds etcd.
func (c children) stop() {
	for i := len(c) - 1; i >= 0; i-- {
		// An error means it is gone already.
		_ = c[i].cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-c[i].gone:
		case <-time.After(5 * time.Second):
			_ = c[i].cmd.Process.Kill()
		}
	}
}

// startChildren starts both and calls end with the reason when one of them ends.
func (n *node) startChildren(end context.CancelCauseFunc, keys *pki, items []string) (children, error) {
	data := n.at("var/lib/rancher/rke2/server/db/etcd")
	manifest := n.at("var/lib/rancher/rke2/agent/pod-manifests/kube-apiserver.yaml")
	logs := n.at("var/log/pods/kube-system_kube-apiserver-" + n.name + "_0/kube-apiserver")
	for _, dir := range []string{data, filepath.Dir(manifest), logs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	var all children
	start := func(cmd *exec.Cmd, log io.Writer) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			return err
		}
		gone := make(chan struct{})
		all = append(all, child{cmd, gone})
		go func() {
			defer close(gone)
			end(fmt.Errorf("%s ended: %v", filepath.Base(cmd.Path), cmd.Wait()))
		}()
		return nil
	}

	etcd := "http://127.0.0.1:" + n.etcdPort
	etcdLog, err := os.Create(filepath.Join(filepath.Dir(data), "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer etcdLog.Close()
	if err := start(exec.Command(n.program("etcd"), "--data-dir="+data, "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync"), etcdLog); err != nil {
		return all, err
	}

	args := arguments(n.apiserverDefaults(keys, etcd), append([]string{"enable-admission-plugins=NodeRestriction"}, items...))
	if err := os.WriteFile(manifest, []byte(podManifest(args)), 0o600); err != nil {
		return all, err
	}
	apiserverLog, err := nextLog(logs)
	if err != nil {
		return all, err
	}
	return all, start(exec.Command(n.program("kube-apiserver"), args...), &containerLog{file: apiserverLog})
}

// apiserverDefaults are the arguments that RKE2 sets itself and that make sense without a cluster.
func (n *node) apiserverDefaults(keys *pki, etcd string) map[string]string {
	return map[string]string{
		"anonymous-auth":                   "false",
		"authorization-mode":               "Node,RBAC",
		"bind-address":                     "127.0.0.1",
		"cert-dir":                         keys.dir,
		"client-ca-file":                   keys.ca,
		"disable-admission-plugins":        "ServiceAccount",
		"endpoint-reconciler-type":         "none",
		"etcd-servers":                     etcd,
		"secure-port":                      n.port,
		"service-account-issuer":           "https://kubernetes.default.svc.cluster.local",
		"service-account-key-file":         keys.serviceAccount.key,
		"service-account-signing-key-file": keys.serviceAccount.key,
		"service-cluster-ip-range":         "10.43.0.0/16",
		"tls-cert-file":                    keys.server.cert,
		"tls-private-key-file":             keys.server.key,
	}
}

// podManifest is as much of the static pod as a reader of its arguments needs.
func podManifest(args []string) string {
	text := strings.Builder{}
	text.WriteString("apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    component: kube-apiserver\n    tier: control-plane\n" +
		"  name: kube-apiserver\n  namespace: kube-system\nspec:\n  containers:\n  - args:\n")
	for _, arg := range args {
		fmt.Fprintf(&text, "    - %q\n", arg)
	}
	text.WriteString("    command:\n    - kube-apiserver\n    image: index.docker.io/rancher/hardened-kubernetes\n    name: kube-apiserver\n  hostNetwork: true\n")
	return text.String()
}

// nextLog makes the log of a container's next start, named by the number of its restarts as the kubelet names it; of the
// starts before, the last one's stays.
func nextLog(dir string) (*os.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	next := 0
	for _, e := range entries {
		number, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".log"))
		if err == nil {
			next = max(next, number+1)
		}
	}
	path := func(number int) string { return filepath.Join(dir, fmt.Sprintf("%d.log", number)) }
	if err := os.Remove(path(next - 2)); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return os.Create(path(next))
}

// containerLog writes as the container runtime does: time, stream, "F" for a full line.
type containerLog struct {
	mutex sync.Mutex
	file  *os.File
	rest  []byte
}

func (l *containerLog) Write(bytes []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.rest = append(l.rest, bytes...)
	for {
		advance, line, err := bufio.ScanLines(l.rest, false)
		if err != nil || advance == 0 {
			return len(bytes), err
		}
		fmt.Fprintf(l.file, "%s stderr F %s\n", time.Now().UTC().Format(time.RFC3339Nano), line)
		l.rest = l.rest[advance:]
	}
}

// ready waits until /readyz says 200 to the admin; without a credential RKE2's API server says 401.
func ready(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// register writes the Node object that the kubelet would.
func (n *node) register(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{
		"kubernetes.io/hostname": n.name, "node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/etcd": "true",
	}}}
	if _, err := client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	there.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		Message: "kubelet is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, there, metav1.UpdateOptions{})
	return err
}

// notify tells systemd, if it listens: it does when NOTIFY_SOCKET is set.
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if strings.HasPrefix(path, "@") {
		path = "\x00" + path[1:]
	}
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		log.Printf("level=warning msg=%q", err)
		return
	}
	defer socket.Close()
	if _, err := socket.Write([]byte(state)); err != nil {
		log.Printf("level=warning msg=%q", err)
	}
}

func encode(content []byte) string { return base64.StdEncoding.EncodeToString(content) }
