package serving_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/testenv"
)

var (
	env *testenv.Env
	// clientAuthority issues the API server's certificate as a client of webhooks.
	clientAuthority = newAuthority("webhook clients")
)

func TestMain(m *testing.M) {
	dir := must(os.MkdirTemp("", "admission"))
	code := testenv.MainWith(m, os.Getenv(testenv.AssetsVar), &env, map[string]string{
		"admission-control-config-file": configureAdmission(dir),
	})
	_ = os.RemoveAll(dir) // a temporary directory
	os.Exit(code)
}

// configureAdmission writes what docs/operate/operations.md tells administrators to write.
func configureAdmission(dir string) (file string) {
	certificate, key := clientAuthority.issue("kube-apiserver", x509.ExtKeyUsageClientAuth)
	for name, text := range map[string]string{
		"client.crt": string(certificate),
		"client.key": string(key),
		"kubeconfig": `apiVersion: v1
kind: Config
users:
  - name: '*'
    user:
      client-certificate: ` + filepath.Join(dir, "client.crt") + `
      client-key: ` + filepath.Join(dir, "client.key") + `
`,
		"admission.yaml": `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: MutatingAdmissionWebhook
    configuration: &webhooks
      apiVersion: apiserver.config.k8s.io/v1
      kind: WebhookAdmissionConfiguration
      kubeConfigFile: ` + filepath.Join(dir, "kubeconfig") + `
  - name: ValidatingAdmissionWebhook
    configuration: *webhooks
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	return filepath.Join(dir, "admission.yaml")
}

// A real API server shows its certificate and is answered. The same request without the
// certificate is refused.
func TestTheAPIServerAsksWithItsCertificate(t *testing.T) {
	clients, err := serving.NewClients(clientAuthority.file(t), []string{"kube-apiserver"})
	if err != nil {
		t.Fatal(err)
	}
	handler := &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, _ admission.Request) admission.Response {
		return admission.Allowed("").WithWarnings("limpet answered")
	})}
	w := serve(t, handler.ServeHTTP, func(o *serving.Options) { o.Clients = clients; o.Limits = serving.DefaultLimits })
	url, none, fail := w.url+path, admissionv1.SideEffectClassNone, admissionv1.Fail
	env.Create(t, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "certificate"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "pods.limpet.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: w.authority.pem},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	})
	c, heard := env.Listen(t)
	ns := env.Namespace(t)
	testenv.Eventually(t, func() error {
		pod := testenv.APod("asked").In(ns).Pod
		if err := c.Create(t.Context(), pod); err != nil {
			return err
		}
		if err := env.Client.Delete(t.Context(), pod); err != nil {
			return err
		}
		return heard.Names("limpet answered")
	})
	if status, _, err := w.post(t, w.client("", nil), path, strings.NewReader("{}")); err != nil || status != http.StatusForbidden {
		t.Errorf("without a certificate: %d, %v", status, err)
	}
	t.Run("a pod that is too large is refused at once", func(t *testing.T) {
		pod := testenv.APod("costly").In(ns).Pod
		pod.Spec.Containers[0].Args = make([]string, serving.DefaultLimits.Admission.Values/6)
		err := env.Client.Create(t.Context(), pod)
		if err == nil || !strings.Contains(err.Error(), "413") {
			t.Errorf("create pod with many arguments: %.300v, want a refusal with the status of the webhook", err)
		}
	})
}
