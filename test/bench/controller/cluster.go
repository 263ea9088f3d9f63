package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/test/bench/measure"
)

const (
	systemNamespace = "limpet-system"
	secretName      = "limpet-controller-certificate"
	// account is whom the API server takes the controller for; the audit log has only
	// its requests.
	account = "system:serviceaccount:limpet-system:limpet-controller"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, users: ["` + account + `"]}
  - {level: None}
`

// place is where things are.
type place struct {
	root, controller, assets string
	dir                      string // for files that go when the benchmark ends
}

// bench is a running cluster.
type bench struct {
	place
	size       scale
	begin      time.Time
	endWatches context.CancelFunc

	server     *envtest.Environment
	config     *rest.Config
	client     client.Client
	audit      measure.Audit
	controlled *process
	records    *records
	cluster    cluster
}

// start brings up the API server and the controller.
func (b *bench) start(ctx context.Context) error {
	b.progress("start")
	policy := filepath.Join(b.dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	b.audit.Path = filepath.Join(b.dir, "audit.log")
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), appsv1beta1.AddToScheme(scheme), policyv1beta1.AddToScheme(scheme), limpetv1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("register kinds: %w", err)
	}
	b.server = &envtest.Environment{
		Scheme: scheme, BinaryAssetsDirectory: b.assets, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
		CRDDirectoryPaths: []string{filepath.Join(b.root, "deploy", "crds")},
	}
	b.server.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", b.audit.Path)
	config, err := b.server.Start()
	if err != nil {
		return fmt.Errorf("start API server: %w", err)
	}
	config.QPS = -1
	b.config = config
	if b.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if err := b.install(ctx); err != nil {
		return err
	}
	if b.records, err = followRecords(ctx, b); err != nil {
		return err
	}
	if err := b.startController(ctx); err != nil {
		return err
	}
	return b.pointWebhooks(ctx, b.controlled.webhookPort)
}

// install makes what deploy/ makes around the controller, apart from the Deployment.
func (b *bench) install(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: systemNamespace, Name: secretName}
	err := errors.Join(
		b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}),
		b.client.Create(ctx, &corev1.Secret{ObjectMeta: meta}))
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	return b.manifests("rbac.yaml", func(o *unstructured.Unstructured) error { return b.client.Create(ctx, o) })
}

// manifests reads one of the files that users apply.
func (b *bench) manifests(name string, use func(*unstructured.Unstructured) error) error {
	f, err := os.Open(filepath.Join(b.root, "deploy", "controller", name))
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

// stop ends the processes, and adds to an error what the controller had to say.
func (b *bench) stop(err error) error {
	if b.controlled != nil {
		if err != nil {
			err = fmt.Errorf("%w; the controller's last lines:\n%s", err, b.controlled.lastLines())
		}
		err = errors.Join(err, b.controlled.stop())
	}
	b.endWatches() // the API server would wait for them
	if b.server != nil {
		err = errors.Join(err, b.server.Stop())
	}
	return err
}

// progress tells a person that something goes on.
func (b *bench) progress(what string) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(b.begin).Seconds(), what)
}
