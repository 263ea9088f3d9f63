// Package certmanager_test runs the controllers of cert-manager with the manifests of deploy/cert-manager.
package certmanager_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/limpet-io/limpet/internal/testenv"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, cmapi.AddToScheme, apiextensionsv1.AddToScheme))
}

const system = "limpet-system"

// names are the hosts under which the API server asks the controller.
var names = []string{"limpet-controller." + system + ".svc", "limpet-controller-conversion." + system + ".svc"}

// TestCertManagerMakesTheCertificate applies what users apply. cert-manager makes the certificate of the webhooks, and
// writes its authority wherever the API server needs it. A renewed certificate has the same authority: between the
// renewal and the moment at which each replica reads the new file, the API server trusts the former one.
func TestCertManagerMakesTheCertificate(t *testing.T) {
	installCRDs(t)
	run(t)
	apply(t, env.Render(t, "deploy/cert-manager"))
	first := issued(t, nil)
	trusted(t, first)
	renew(t)
	second := issued(t, first.Data[corev1.TLSCertKey])
	trusted(t, second)
	if !bytes.Equal(first.Data[cmmeta.TLSCAKey], second.Data[cmmeta.TLSCAKey]) {
		t.Error("the renewed certificate has another authority: webhooks fail until each replica has read the new file")
	}
	for _, name := range names {
		if err := verify(second.Data[cmmeta.TLSCAKey], first.Data[corev1.TLSCertKey], name); err != nil {
			t.Errorf("the API server does not trust the former certificate: %v", err)
		}
	}
}

// installCRDs installs the kinds of cert-manager, from its module.
func installCRDs(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatalf("find the module of cert-manager: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "deploy", "crds")
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Paths: []string{dir}, ErrorIfPathMissing: true}); err != nil {
		t.Fatalf("install the kinds of cert-manager: %v", err)
	}
}

// run runs cert-manager until the test ends: all of its controllers that take part, and the injector of authorities.
func run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	running := 0
	begin := func(what string, do func(context.Context) error) {
		running++
		go func() {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				ended <- fmt.Errorf("%s: %w", what, err)
				return
			}
			ended <- nil
		}()
	}
	t.Cleanup(func() {
		cancel()
		var failed error
		for range running {
			failed = errors.Join(failed, <-ended)
		}
		if failed != nil {
			t.Errorf("cert-manager ended: %v", failed)
		}
	})
	env.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "cert-manager"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "cert-manager"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	})
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    env.Kubeconfig(t, "cert-manager"),
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: system},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, build := range controller.Known() {
		c, err := build(factory)
		if err != nil {
			t.Fatalf("make controller %s: %v", name, err)
		}
		begin(name, func(ctx context.Context) error { return c.Run(1, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		t.Fatal(err)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	as := rest.CopyConfig(env.Config)
	as.UserAgent = "cert-manager-cainjector" // it names the fields that it writes by this
	mgr, err := ctrl.NewManager(as, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true, cainjector.CustomResourceDefinitionName: true,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	begin("cainjector", mgr.Start)
}

// apply applies what concerns the certificate, as kubectl does.
func apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		switch o.GetKind() {
		case "Namespace", "Issuer", "Certificate", "CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			if err := env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership); err != nil {
				t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
}

// issued waits for the Secret that the Deployment mounts, with another certificate than a former one.
func issued(t *testing.T, former []byte) *corev1.Secret {
	t.Helper()
	var secret corev1.Secret
	testenv.Eventually(t, func() error {
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "limpet-controller-certificate"}, &secret)
		if err == nil && (len(secret.Data[corev1.TLSCertKey]) == 0 || bytes.Equal(secret.Data[corev1.TLSCertKey], former)) {
			err = errors.New("the Secret has no new certificate")
		}
		return err
	})
	return &secret
}

// renew does what `cmctl renew` does.
func renew(t *testing.T) {
	t.Helper()
	var certificate cmapi.Certificate
	env.Read(t, client.ObjectKey{Namespace: system, Name: "limpet-controller"}, &certificate)
	text := fmt.Sprintf(`{"status":{"conditions":[{"type":"Issuing","status":"True","reason":"ManuallyTriggered","message":"by the test","lastTransitionTime":%q}]}}`,
		certificate.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"))
	if err := env.Client.Status().Patch(t.Context(), &certificate, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		t.Fatalf("renew the certificate: %v", err)
	}
}

// trusted waits until the API server trusts a certificate, wherever it asks the controller.
func trusted(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	testenv.Eventually(t, func() error {
		bundles, err := authorities(t)
		if err != nil {
			return err
		}
		for where, bundle := range bundles {
			for _, name := range names {
				if err := verify(bundle, secret.Data[corev1.TLSCertKey], name); err != nil {
					return fmt.Errorf("%s: %w", where, err)
				}
			}
		}
		return nil
	})
}

// authorities returns what the API server trusts, by where it is written.
func authorities(t *testing.T) (map[string][]byte, error) {
	t.Helper()
	var mutating admissionv1.MutatingWebhookConfiguration
	var validating admissionv1.ValidatingWebhookConfiguration
	key := client.ObjectKey{Name: "limpet-controller"}
	if err := errors.Join(env.Client.Get(t.Context(), key, &mutating), env.Client.Get(t.Context(), key, &validating)); err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for _, w := range mutating.Webhooks {
		found[w.Name] = w.ClientConfig.CABundle
	}
	for _, w := range validating.Webhooks {
		found[w.Name] = w.ClientConfig.CABundle
	}
	if len(found) < 5 {
		return nil, fmt.Errorf("%d webhooks: the test tests little", len(found))
	}
	for _, name := range []string{"persistentpodstates.apps.kruise.io", "workloadspreads.apps.kruise.io", "podunavailablebudgets.policy.kruise.io"} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			return nil, err
		}
		if crd.Spec.Conversion == nil || crd.Spec.Conversion.Webhook == nil {
			return nil, fmt.Errorf("CRD %s has no conversion", name)
		}
		found[name] = crd.Spec.Conversion.Webhook.ClientConfig.CABundle
	}
	return found, nil
}

// verify checks a certificate as the API server does.
func verify(authority, chain []byte, name string) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return errors.New("no authority")
	}
	block, rest := pem.Decode(chain)
	if block == nil {
		return errors.New("no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	between.AppendCertsFromPEM(rest)
	if _, err = certificate.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name}); err != nil {
		return fmt.Errorf("certificate for %s: %w", name, err)
	}
	return nil
}
