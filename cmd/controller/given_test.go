package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const certificateRole = "limpet-controller-certificate"

// A controller with a given certificate works without the rights that
// deploy/given-certificate leaves out, and writes no webhook configuration and no CRD.
func TestAControllerWithAGivenCertificateWritesNoWebhooks(t *testing.T) {
	env.AsController(t)
	// A leader that is killed leaves its lease behind, for which the next test would wait.
	env.RemoveAtEnd(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller"}})
	withdraw(t)
	inherited := inherit(t)
	var former appsv1alpha1.PersistentPodState
	env.Read(t, inherited, &former)
	var local envtest.WebhookInstallOptions
	if err := local.PrepWithoutInstalling(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Cleanup(); err != nil {
			t.Errorf("remove the certificate: %v", err)
		}
	})
	r := startReplica(t, "--certificate=given", "--cert-dir="+local.LocalServingCertDir)
	mutating, validating := trusted(t, r, local.LocalServingCAData)
	r.waitReady(t)
	rebuilt(t)
	converted(t)
	stored(t, inherited, former.ResourceVersion)
	env.Remove(t, &former) // the API server converts it, while the replica is there
	for _, o := range []client.Object{mutating, validating} {
		before := o.GetResourceVersion()
		env.Read(t, client.ObjectKeyFromObject(o), o)
		if o.GetResourceVersion() != before {
			t.Errorf("%T was written", o)
		}
	}
}

// stored waits until an object is stored again in the current version, and then writes the
// stored versions, which remains for an administrator.
func stored(t *testing.T, key client.ObjectKey, before string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var now appsv1beta1.PersistentPodState
		if err := env.Client.Get(t.Context(), key, &now); err != nil || now.ResourceVersion == before {
			return fmt.Errorf("%s was not stored again: %w", key, err)
		}
		return nil
	})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: testenv.ConvertedCRD}}
	done := client.RawPatch(types.MergePatchType, []byte(`{"status":{"storedVersions":["v1beta1"]}}`))
	if err := env.Client.Status().Patch(t.Context(), crd, done); err != nil {
		t.Fatal(err)
	}
}

// withdraw takes the rights away that are for a certificate of our own, until the test ends.
func withdraw(t *testing.T) {
	t.Helper()
	bindings := []client.Object{
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: certificateRole}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: certificateRole, Namespace: "limpet-system"}},
	}
	for _, o := range bindings {
		env.Read(t, client.ObjectKeyFromObject(o), o)
		env.Remove(t, o)
		o.SetResourceVersion("")
		t.Cleanup(func() {
			if err := env.Client.Create(context.WithoutCancel(t.Context()), o); err != nil {
				t.Errorf("give the rights back: %v", err)
			}
		})
	}
	c := env.As(t, env.AsController(t))
	testenv.Eventually(t, func() error {
		if err := c.List(t.Context(), &admissionv1.MutatingWebhookConfigurationList{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("list webhook configurations: %w, want it forbidden", err)
		}
		return nil
	})
}

// trusted installs the webhooks of one replica with the authority of its certificate, as an
// administrator does.
func trusted(t *testing.T, r *replica, authority []byte) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	t.Helper()
	_, port, _ := net.SplitHostPort(r.webhook)
	host := net.JoinHostPort("localhost", port)
	env.ConvertAt(t, host, authority)
	at := func(c *admissionv1.WebhookClientConfig) {
		*c = admissionv1.WebhookClientConfig{URL: new("https://" + host + *c.Service.Path), CABundle: authority}
	}
	mutating, validating := readWebhooks(t)
	for i := range mutating.Webhooks {
		at(&mutating.Webhooks[i].ClientConfig)
	}
	for i := range validating.Webhooks {
		at(&validating.Webhooks[i].ClientConfig)
	}
	env.Create(t, mutating, validating)
	return mutating, validating
}

// The overlays of deploy/ leave out exactly the rights of the certificate, and the Secret.
func TestOverlaysForAGivenCertificate(t *testing.T) {
	key := func(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }
	keys := func(path string) map[string]*unstructured.Unstructured {
		found := map[string]*unstructured.Unstructured{}
		for _, o := range env.Render(t, path) {
			found[key(o)] = o
		}
		return found
	}
	all := keys("deploy/default")
	for path, more := range map[string][]string{
		"deploy/given-certificate": nil,
		"deploy/cert-manager": {
			"Certificate limpet-controller", "Certificate limpet-controller-authority", "Issuer limpet-controller", "Issuer limpet-controller-self-signed",
		},
	} {
		t.Run(path, func(t *testing.T) {
			var added, missing []string
			rendered := keys(path)
			for k := range rendered {
				if all[k] == nil {
					added = append(added, k)
				}
			}
			for k := range all {
				if rendered[k] == nil {
					missing = append(missing, k)
				}
			}
			slices.Sort(added)
			slices.Sort(missing)
			want := []string{
				"ClusterRole " + certificateRole, "ClusterRoleBinding " + certificateRole, "Role " + certificateRole, "RoleBinding " + certificateRole, "Secret " + certificateRole,
			}
			if !slices.Equal(missing, want) || !slices.Equal(added, more) {
				t.Errorf("without %q and with %q, want without %q and with %q", missing, added, want, more)
			}
			text, err := rendered["Deployment limpet-controller"].MarshalJSON()
			if err != nil || !strings.Contains(string(text), `"--certificate=given"`) {
				t.Errorf("the Deployment lacks the flag: %v\n%s", err, text)
			}
		})
	}
	for _, k := range []string{
		"MutatingWebhookConfiguration limpet-controller", "ValidatingWebhookConfiguration limpet-controller",
		"CustomResourceDefinition " + testenv.ConvertedCRD, "CustomResourceDefinition " + testenv.ConvertedBudgets,
	} {
		if keys("deploy/cert-manager")[k].GetAnnotations()["cert-manager.io/inject-ca-from"] != "limpet-system/limpet-controller" {
			t.Errorf("cert-manager writes no authority into %s", k)
		}
	}
}
