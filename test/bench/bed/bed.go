// Package bed is the ground of the benchmarks of large clusters: a real etcd and API server with the roles of deploy/, and
// controllers as processes.
package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/test/bench/measure"
)

const (
	// Namespace is that of the controller.
	Namespace = "limpet-system"
	// SecretName is where the controller keeps its certificate.
	SecretName = "limpet-controller-certificate"
	// Account is whom the API server takes the controller for. The audit log has only its requests and those of agents.
	Account = "system:serviceaccount:" + Namespace + ":limpet-controller"
	// AgentAccount is whom it takes an agent for.
	AgentAccount = "system:serviceaccount:" + Namespace + ":limpet-agent"
)

// Place is where things are.
type Place struct {
	Root, Controller, Assets string
	Dir                      string // for files that go when the benchmark ends
}

// Bed is a running API server.
type Bed struct {
	Place
	Scheme *runtime.Scheme
	Config *rest.Config
	Client client.Client
	Audit  measure.Audit
	Server *envtest.Environment
}

// Start brings up etcd, which keeps its data in the directory of the place, and the API server.
func (b *Bed) Start() error {
	policy := filepath.Join(b.Dir, "audit.yaml")
	text := fmt.Sprintf("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, users: [%s]}, {level: None}]\n",
		strings.Join([]string{`"` + Account + `"`, `"` + AgentAccount + `"`}, ","))
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	b.Audit.Path, b.Scheme = filepath.Join(b.Dir, "audit.log"), runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(b.Scheme), appsv1beta1.AddToScheme(b.Scheme), policyv1beta1.AddToScheme(b.Scheme), limpetv1alpha1.AddToScheme(b.Scheme)); err != nil {
		return fmt.Errorf("register kinds: %w", err)
	}
	b.Server = &envtest.Environment{
		Scheme: b.Scheme, BinaryAssetsDirectory: b.Assets, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
		CRDDirectoryPaths: []string{filepath.Join(b.Root, "deploy", "crds")},
	}
	b.Server.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", b.Audit.Path)
	b.Server.ControlPlane.Etcd = &envtest.Etcd{DataDir: filepath.Join(b.Dir, "etcd")}
	b.Server.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", "8589934592").Set("max-txn-ops", "1024").Set("max-request-bytes", "33554432")
	err := os.Mkdir(b.Server.ControlPlane.Etcd.DataDir, 0o700)
	if err == nil {
		b.Config, err = b.Server.Start()
	}
	if err != nil {
		return fmt.Errorf("start API server: %w", err)
	}
	b.Config.QPS = -1
	if b.Client, err = client.New(b.Config, client.Options{Scheme: b.Scheme}); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	return nil
}

// Install makes what deploy/ makes around the controller, apart from the Deployment, with the roles of some manifests.
func (b *Bed) Install(ctx context.Context, roles ...string) error {
	err := errors.Join(
		b.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}),
		b.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: SecretName}}))
	for _, name := range roles {
		err = errors.Join(err, b.Manifests(name, func(o *unstructured.Unstructured) error { return b.Client.Create(ctx, o) }))
	}
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	return nil
}

// Manifests reads one of the files in deploy/ that users apply.
func (b *Bed) Manifests(name string, use func(*unstructured.Unstructured) error) error {
	f, err := os.Open(filepath.Join(b.Root, "deploy", filepath.FromSlash(name)))
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

// AccountConfig makes an account with the rights that it has in a cluster.
func (b *Bed) AccountConfig(name string) (*rest.Config, error) {
	user, err := b.Server.AddUser(envtest.User{Name: name, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace}}, nil)
	if err != nil {
		return nil, fmt.Errorf("make account %s: %w", name, err)
	}
	return user.Config(), nil
}

// kubeconfig makes the controller who it is in a cluster, with no more rights than it has there.
func (b *Bed) kubeconfig() (string, error) {
	path := filepath.Join(b.Dir, "kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	config, err := b.AccountConfig(Account)
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
