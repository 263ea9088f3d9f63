package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	testcluster "github.com/limpet-io/limpet/test/cluster"
	"github.com/limpet-io/limpet/test/cluster/build"
	"github.com/limpet-io/limpet/test/cluster/nodeinit"
	"github.com/limpet-io/limpet/test/cluster/preflight"
)

// Cluster is a running cluster.
type Cluster struct {
	// Name is the one in Config.
	Name string

	config Config
	dirs   map[string]string // the binaries of each component
	procs  processes
	keys   *keys
}

// record is what a later process needs to know of a running cluster.
type record struct {
	Nodes    int
	CRIO     []string
	IPv4Only bool
	Dirs     map[string]string
	Self     string
	// AuditPolicy is needed when the API server starts again.
	AuditPolicy string
}

// Up starts a cluster and returns when its API server answers and all nodes have
// registered and got pod CIDRs. They are not Ready until the caller installs a pod
// network, see WaitReady. What Up started is taken down again when it fails.
func Up(ctx context.Context, config Config) (*Cluster, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	var more, programs []string
	if len(config.CRIO) > 0 {
		more, programs = append(more, nodeinit.CRIO), []string{"conmon"}
	}
	if err := preflight.Check(ctx, filepath.Dir(dataDir("")), config.Progress, programs...); err != nil {
		return nil, err
	}
	if err := makeWay(config); err != nil {
		return nil, err
	}
	if config.DNS {
		more = append(more, string(CoreDNS))
	}
	dirs, err := builder(config).Build(ctx, more...)
	if err != nil {
		return nil, err
	}
	c := newCluster(config, dirs)
	if err := c.start(ctx); err != nil {
		config.Progress("cleaning up")
		return nil, errors.Join(err, Down(config.Name))
	}
	return c, nil
}

// makeWay removes what is left of a cluster of which nothing runs any more, as after a machine that restarted.
func makeWay(config Config) error {
	if _, err := os.Stat(stateDir(config.Name)); err != nil {
		return nil //nolint:nilerr // nothing is in the way
	}
	procs := processes{dir: filepath.Join(stateDir(config.Name), "processes")}
	for _, p := range procs.names() {
		if procs.pid(p) != 0 {
			return fmt.Errorf("cluster %[1]q is there already; take it down first: bin/limpet-cluster down --name %[1]s", config.Name)
		}
	}
	config.Progress("removing what is left of a former cluster %q", config.Name)
	return Down(config.Name)
}

// Build builds what is not in the cache and returns the directories of the
// binaries by component: kubernetes, etcd, containerd, cni, and those that are named as well.
func Build(ctx context.Context, config Config, more ...string) (map[string]string, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	return builder(config).Build(ctx, more...)
}

func builder(config Config) *build.Builder {
	return &build.Builder{Cache: config.Cache, Modules: testcluster.Modules, Kubernetes: os.Getenv(build.KubernetesVar), Progress: config.Progress}
}

// Attach returns a cluster that another process started.
func Attach(name string) (*Cluster, error) {
	name, err := properName(name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(stateDir(name), "record.json"))
	if err != nil {
		return nil, fmt.Errorf("cluster %q is not up: %w", name, err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("decode record of cluster %q: %w", name, err)
	}
	config := Config{Name: name, Nodes: r.Nodes, CRIO: r.CRIO, IPv4Only: r.IPv4Only, Self: r.Self, AuditPolicy: r.AuditPolicy}
	if err := config.complete(); err != nil {
		return nil, err
	}
	return newCluster(config, r.Dirs), nil
}

func newCluster(config Config, dirs map[string]string) *Cluster {
	c := &Cluster{Name: config.Name, config: config, dirs: dirs}
	c.procs = processes{dir: filepath.Join(stateDir(c.Name), "processes"), log: c.logDir()}
	return c
}

func (c *Cluster) start(ctx context.Context) error {
	begin := time.Now()
	for _, d := range []string{stateDir(c.Name), c.procs.dir, c.logDir(), c.pkiDir(), c.imageDir()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make state: %w", err)
		}
	}
	data, err := json.Marshal(record{Nodes: c.config.Nodes, CRIO: c.config.CRIO, IPv4Only: c.config.IPv4Only, Dirs: c.dirs, Self: c.config.Self, AuditPolicy: c.config.AuditPolicy})
	if err == nil {
		err = os.WriteFile(filepath.Join(stateDir(c.Name), "record.json"), data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	if err := os.WriteFile(c.auditPolicy(), []byte(c.config.AuditPolicy), 0o644); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	for _, image := range c.config.Images {
		if err := copyFile(image, filepath.Join(c.imageDir(), filepath.Base(image))); err != nil {
			return err
		}
	}
	if err := makeNetwork(c.config); err != nil {
		return err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("open a port for the API server: %w", err)
	}
	defer listener.Close()
	if c.keys, err = makeKeys(c.pkiDir(), "https://"+listener.Addr().String()); err != nil {
		return err
	}
	if err := c.startForwarder(listener); err != nil {
		return err
	}
	c.config.Progress("starting the control plane")
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	if err := c.bootNodes(ctx); err != nil {
		return err
	}
	c.config.Progress("%d nodes registered after %.1f s", c.config.Nodes, time.Since(begin).Seconds())
	return nil
}

// bootNodes starts all nodes with new disks, and waits until the API server knows them.
func (c *Cluster) bootNodes(ctx context.Context) error {
	c.config.Progress("booting %d nodes", c.config.Nodes)
	for i := 1; i <= c.config.Nodes; i++ {
		if err := c.layDisk(i, c.dirs["cni"]); err != nil {
			return fmt.Errorf("disk of %s: %w", nodeName(i), err)
		}
		if err := c.mountCNIDisk(nodeName(i)); err != nil {
			return err
		}
		if err := c.PowerOn(nodeName(i)); err != nil {
			return err
		}
	}
	return c.awaitNodes(ctx)
}

// Down ends a cluster and removes all that it made, also when Up was killed
// half-way or Down was. What is not there is no error.
func Down(name string) error {
	name, err := properName(name) // whatever else it is, it is not to be removed
	if err != nil {
		return err
	}
	procs := processes{dir: filepath.Join(stateDir(name), "processes")}
	var errs []error
	for _, p := range procs.names() {
		errs = append(errs, procs.end(p, unix.SIGKILL, 5*time.Second)) // nothing of it is to be kept
	}
	errs = append(errs, killCgroup(name), takeBack(filepath.Join(stateDir(name), lentFile)), removeNetNSOf(name))
	errs = append(errs, unmountCNIDisks(name))
	errs = append(errs, retry(func() error { return os.RemoveAll(dataDir(name)) }), os.RemoveAll(stateDir(name)))
	for _, parent := range []string{dataDir(""), stateDir("")} {
		_ = os.Remove(parent) // other clusters may be in it
	}
	return errors.Join(errs...)
}

func removeNetNSOf(name string) error {
	all, err := filepath.Glob(filepath.Join(netnsDir, "limpet-"+name+"-*"))
	if err != nil {
		return fmt.Errorf("list network namespaces: %w", err)
	}
	var errs []error
	for _, path := range all {
		errs = append(errs, removeNetNS(filepath.Base(path)))
	}
	return errors.Join(errs...)
}

// WaitReady waits until every node is Ready, and lets the control plane reach the pods
// of one that came back with other pod CIDRs.
func (c *Cluster) WaitReady(ctx context.Context, limit time.Duration) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	var last string
	err = poll(ctx, limit, func(ctx context.Context) (bool, error) {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // it is asked again, and told when the time is up
		}
		ready := 0
		for _, n := range nodes.Items {
			for _, condition := range n.Status.Conditions {
				if condition.Type != corev1.NodeReady {
					continue
				}
				if condition.Status == corev1.ConditionTrue {
					ready++
				} else {
					last = n.Name + ": " + condition.Message
				}
			}
		}
		return ready == c.config.Nodes, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %d nodes to be Ready: %w: %s", c.config.Nodes, err, last)
	}
	return c.awaitNodes(ctx)
}

// Nodes lists the names of the nodes.
func (c *Cluster) Nodes() []string {
	var names []string
	for i := 1; i <= c.config.Nodes; i++ {
		names = append(names, nodeName(i))
	}
	return names
}

// Kubeconfig returns the path of a kubeconfig that works from this machine.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.pkiDir(), "admin.kubeconfig") }

// Kubectl returns the path of kubectl.
func (c *Cluster) Kubectl() string { return filepath.Join(c.dirs["kubernetes"], "kubectl") }

// RESTConfig returns the way to the API server from this machine, without a limit
// on the rate of requests.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// Client returns a client of the cluster.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// LogDir returns where the control plane's logs are. A node's own are below Disk.
func (c *Cluster) LogDir() string { return c.logDir() }

// AuditLog is the file that the API server writes, if the cluster has an audit policy.
func (c *Cluster) AuditLog() string { return filepath.Join(c.logDir(), "audit.log") }

// ControlNetNS returns the path of the control plane's network namespace, which reaches nodes and pods.
func (c *Cluster) ControlNetNS() string { return filepath.Join(netnsDir, controlNetNS(c.Name)) }

// NodeNetNS returns the path of a node's network namespace.
func (c *Cluster) NodeNetNS(node string) string {
	return filepath.Join(netnsDir, nodeNetNS(c.Name, node))
}

// Disk returns where a node's etc, var and opt are, its logs in var/log.
func (c *Cluster) Disk(node string) string { return c.disk(node) }

func (c *Cluster) auditPolicy() string     { return filepath.Join(stateDir(c.Name), "audit.yaml") }
func (c *Cluster) logDir() string          { return filepath.Join(stateDir(c.Name), "logs") }
func (c *Cluster) pkiDir() string          { return filepath.Join(stateDir(c.Name), "pki") }
func (c *Cluster) imageDir() string        { return filepath.Join(dataDir(c.Name), "images") }
func (c *Cluster) disk(node string) string { return filepath.Join(dataDir(c.Name), node) }
