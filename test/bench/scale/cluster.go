package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/test/bench/measure"
)

const (
	systemNamespace = "limpet-system"
	secretName      = "limpet-controller-certificate"
	account         = "system:serviceaccount:limpet-system:limpet-controller"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, users: ["` + account + `", "` + agentAccount + `"]}
  - {level: None}
`

// place is where things are.
type place struct {
	root, controller, assets, data string
	dir                            string // for files that go when the scene ends
}

// bench is a running cluster.
type bench struct {
	place
	size       scale
	scene      string
	begin      time.Time
	endWatches context.CancelFunc

	server      *envtest.Environment
	config      *rest.Config
	client      client.Client
	scheme      *runtime.Scheme
	audit       measure.Audit
	controllers []*process
	raw         rest.Interface
	restarted   *exec.Cmd // the API server that was started again
	heapLimit   string    // of the controllers
}

// start brings up etcd and the API server.
func (b *bench) start(ctx context.Context) error {
	b.progress("start")
	policy := filepath.Join(b.dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	b.audit.Path = filepath.Join(b.dir, "audit.log")
	b.scheme = runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(b.scheme), appsv1beta1.AddToScheme(b.scheme), limpetv1alpha1.AddToScheme(b.scheme)); err != nil {
		return fmt.Errorf("register kinds: %w", err)
	}
	b.server = &envtest.Environment{
		Scheme: b.scheme, BinaryAssetsDirectory: b.assets, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
		CRDDirectoryPaths: []string{filepath.Join(b.root, "deploy", "crds")},
	}
	b.server.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", b.audit.Path)
	b.server.ControlPlane.Etcd = &envtest.Etcd{DataDir: filepath.Join(b.dir, "etcd")}
	b.server.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", "8589934592").Set("max-txn-ops", "1024").Set("max-request-bytes", "33554432")
	if err := os.Mkdir(b.server.ControlPlane.Etcd.DataDir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	config, err := b.server.Start()
	if err != nil {
		return fmt.Errorf("start API server: %w", err)
	}
	config.QPS = -1
	b.config = config
	if b.client, err = client.New(config, client.Options{Scheme: b.scheme}); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	b.raw = clients.Discovery().RESTClient()
	return b.install(ctx)
}

// install makes what deploy/ makes around the controller, apart from the Deployment.
func (b *bench) install(ctx context.Context) error {
	err := errors.Join(
		b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}),
		b.client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: secretName}}))
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	create := func(o *unstructured.Unstructured) error { return b.client.Create(ctx, o) }
	return errors.Join(b.manifests("controller/rbac.yaml", create), b.manifests("daemonset/rbac.yaml", create))
}

// manifests reads one of the files that users apply.
func (b *bench) manifests(name string, use func(*unstructured.Unstructured) error) error {
	f, err := os.Open(filepath.Join(b.root, "deploy", filepath.FromSlash(name)))
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	for decoder := utilyaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = use(o)
		}
		if err != nil {
			return fmt.Errorf("apply %s: %w", name, err)
		}
	}
}

// etcdURL is where etcd listens.
func (b *bench) etcdURL() *url.URL { return b.server.ControlPlane.Etcd.URL }

// kubeconfig writes the configuration of an account, with the rights that it has in a cluster.
func (b *bench) kubeconfig(name string) (string, error) {
	path := filepath.Join(b.dir, "kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	config, err := b.accountConfig(name)
	if err != nil {
		return "", err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["bench"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	c.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	c.CurrentContext = "bench"
	return path, clientcmd.WriteToFile(*c, path)
}

// accountConfig makes an account with the rights that it has in a cluster.
func (b *bench) accountConfig(name string) (*rest.Config, error) {
	user, err := b.server.AddUser(envtest.User{Name: name, Groups: []string{
		"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace,
	}}, nil)
	if err != nil {
		return nil, fmt.Errorf("make account %s: %w", name, err)
	}
	return user.Config(), nil
}

// stop ends the processes.
func (b *bench) stop() error {
	var err error
	for _, p := range b.controllers {
		err = errors.Join(err, p.stop())
	}
	b.endWatches() // the API server would wait for them, and one that was started again ends
	if b.restarted != nil {
		_ = b.restarted.Wait() // a signal ended it
	}
	if b.server != nil {
		err = errors.Join(err, b.server.Stop())
	}
	return err
}

// told adds to an error what the controllers had to say.
func (b *bench) told(err error) error {
	for _, p := range b.controllers {
		if err != nil {
			err = fmt.Errorf("%w; the last lines of a controller:\n%s", err, p.lastLines())
		}
	}
	return err
}

// progress tells a person that something goes on.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s: %s\n", time.Since(b.begin).Seconds(), b.scene, fmt.Sprintf(format, args...))
}
