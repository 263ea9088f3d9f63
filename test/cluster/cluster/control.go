package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Component is a program of the control plane.
type Component string

// The components, in the order in which they start.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	CoreDNS           Component = "coredns" // if Config.DNS is set
)

// StartComponent starts a component of the control plane.
func (c *Cluster) StartComponent(k Component) error {
	path := filepath.Join(c.dirs["kubernetes"], string(k))
	if k == Etcd || k == CoreDNS {
		path = filepath.Join(c.dirs[string(k)], string(k))
	}
	return c.spawnControl(string(k), append([]string{path}, c.arguments(k)...))
}

// spawnControl starts a program in the control plane's network namespace. It enters
// its cgroup before it becomes that program, so Down finds it even when Up was
// killed before it wrote the PID down.
func (c *Cluster) spawnControl(name string, argv []string, files ...*os.File) error {
	if c.procs.pid(name) != 0 {
		return fmt.Errorf("%s is running", name)
	}
	cmd := exec.Command(c.config.Self, append([]string{"control-exec", c.Name}, argv...)...)
	cmd.ExtraFiles = files
	return c.procs.spawn(name, controlNetNS(c.Name), cmd)
}

// StopComponent stops a component of the control plane.
func (c *Cluster) StopComponent(k Component) error {
	return c.procs.end(string(k), unix.SIGTERM, 10*time.Second)
}

// KillComponent kills a component of the control plane, as a crash of it would.
func (c *Cluster) KillComponent(k Component) error {
	return c.procs.end(string(k), unix.SIGKILL, 10*time.Second)
}

func (c *Cluster) arguments(k Component) []string {
	p := func(file string) string { return filepath.Join(c.pkiDir(), file) }
	manager := func(kubeconfig string) []string {
		return []string{
			"--kubeconfig=" + p(kubeconfig), "--authentication-kubeconfig=" + p(kubeconfig), "--authorization-kubeconfig=" + p(kubeconfig),
			"--bind-address=127.0.0.1", "--leader-elect=false",
		}
	}
	switch k {
	case Etcd:
		return []string{
			"--name=limpet", "--data-dir=" + filepath.Join(dataDir(c.Name), "etcd"), "--log-level=warn", "--unsafe-no-fsync",
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=limpet=http://127.0.0.1:2380",
		}
	case APIServer:
		args := []string{
			"--advertise-address=" + controlIP4, "--secure-port=" + apiPort, "--etcd-servers=http://127.0.0.1:2379", "--service-cluster-ip-range=" + c.config.families(serviceCIDR4, serviceCIDR6),
			"--client-ca-file=" + p("ca.crt"), "--tls-cert-file=" + p("apiserver.crt"), "--tls-private-key-file=" + p("apiserver.key"),
			"--kubelet-client-certificate=" + p("kubelet-client.crt"), "--kubelet-client-key=" + p("kubelet-client.key"),
			"--kubelet-certificate-authority=" + p("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc." + domain, "--service-account-key-file=" + p("tokens.crt"), "--service-account-signing-key-file=" + p("tokens.key"),
			"--requestheader-client-ca-file=" + p("front-ca.crt"), "--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + p("front-proxy.crt"), "--proxy-client-key-file=" + p("front-proxy.key"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true", "--profiling=false",
			"--enable-aggregator-routing=true", // webhook Services are reached by their endpoints: no kube-proxy runs here
		}
		if c.config.AuditPolicy != "" {
			args = append(args, "--audit-policy-file="+c.auditPolicy(), "--audit-log-path="+c.AuditLog(), "--audit-log-maxsize=1000")
		}
		return args
	case ControllerManager:
		args := append(manager("kcm.kubeconfig"),
			"--use-service-account-credentials=true", "--service-account-private-key-file="+p("tokens.key"), "--root-ca-file="+p("ca.crt"),
			"--allocate-node-cidrs=true", "--cluster-cidr="+c.config.families(podCIDR4, podCIDR6), "--service-cluster-ip-range="+c.config.families(serviceCIDR4, serviceCIDR6),
		)
		if !c.config.IPv4Only {
			args = append(args, "--node-cidr-mask-size-ipv6=64")
		}
		return args
	case Scheduler:
		return manager("scheduler.kubeconfig")
	case CoreDNS:
		return []string{"-conf", c.corefile()}
	}
	return nil
}

// startControlPlane starts everything and waits until the API server is ready. The
// controller manager exits when it comes up before that.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	for _, k := range []Component{Etcd, APIServer} {
		if err := c.StartComponent(k); err != nil {
			return err
		}
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	err = poll(ctx, 3*time.Minute, func(ctx context.Context) (bool, error) {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if c.procs.pid(string(APIServer)) == 0 {
			return false, c.procs.ended(string(APIServer))
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	rest := []Component{ControllerManager, Scheduler}
	if c.config.DNS {
		rest = append(rest, CoreDNS)
		if err := c.writeCorefile(); err != nil {
			return err
		}
	}
	for _, k := range rest {
		if err := c.StartComponent(k); err != nil {
			return err
		}
	}
	return nil
}

// startForwarder opens a port on the machine's loopback that leads to the API
// server. The listener belongs to the machine's network namespace, the process
// that dials to the control plane's.
func (c *Cluster) startForwarder(listener *net.TCPListener) error {
	f, err := listener.File()
	if err != nil {
		return fmt.Errorf("hand over listener: %w", err)
	}
	defer f.Close()
	return c.spawnControl("forwarder", []string{c.config.Self, "forward", controlIP4 + ":" + apiPort}, f)
}

// awaitNodes waits until every node has registered and got its pod CIDRs, and lets
// the control plane reach its pods.
func (c *Cluster) awaitNodes(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	for i := 1; i <= c.config.Nodes; i++ {
		var cidrs []string
		err := poll(ctx, 3*time.Minute, func(ctx context.Context) (bool, error) {
			node, err := client.CoreV1().Nodes().Get(ctx, nodeName(i), metav1.GetOptions{})
			if err != nil {
				return false, nil //nolint:nilerr // not registered yet
			}
			cidrs = node.Spec.PodCIDRs
			return len(cidrs) > 0, nil
		})
		if err != nil {
			return fmt.Errorf("wait for %s to register, see %s: %w", nodeName(i), filepath.Join(c.disk(nodeName(i)), "var/log"), err)
		}
		if err := routePods(c.config, i, cidrs); err != nil {
			return err
		}
	}
	return nil
}

// poll asks until the answer is yes, an error, or the time is up.
func poll(ctx context.Context, limit time.Duration, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		done, err := ask(ctx)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// retry gives what dies slowly a few seconds.
func retry(fn func() error) error {
	var err error
	for range 100 {
		if err = fn(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.Join(errors.New("gave up after 5 s"), err)
}
