package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestJoin lets a cluster read its own budgets, as if it were another one: the token may read budgets, and nothing
// else. A second time renews it, and leave takes it back.
func TestJoin(t *testing.T) {
	env.AsController(t) // makes limpet-system
	answered := make(chan error, 1)
	go func() {
		_, err := command(t, env.Config, "join", "test", "--name", "green")
		answered <- err
	}()
	giveToken(t)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	peers := peersOf(t)
	config, err := clientcmd.NewNonInteractiveClientConfig(*peers, "green", nil, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	reader := env.As(t, config)
	testenv.Eventually(t, func() error { return reader.List(t.Context(), &limpetv1alpha1.DistributedPodDisruptionBudgetList{}) })
	for _, other := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &limpetv1alpha1.DisruptionBookList{}, &policyv1.PodDisruptionBudgetList{}} {
		if err := reader.List(t.Context(), other); !apierrors.IsForbidden(err) {
			t.Errorf("list %T with the token: %v, want that it is forbidden", other, err)
		}
	}
	if _, err := command(t, env.Config, "join", "test", "--name", "green", "--pdb"); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, func() error { return reader.List(t.Context(), &policyv1.PodDisruptionBudgetList{}) })
	if out, err := command(t, env.Config, "join", "test", "--name", "red", "--server", "https://10.9.9.9:6443"); err != nil || !strings.Contains(out, "cluster red at https://10.9.9.9:6443") {
		t.Errorf("a further cluster: %q, %v", out, err)
	}
	if peers = peersOf(t); len(peers.Contexts) != 2 || peers.Clusters["red"].Server != "https://10.9.9.9:6443" {
		t.Errorf("contexts %v", peers.Contexts)
	}
	if _, err := command(t, env.Config, "leave", "green"); err != nil {
		t.Error(err)
	}
	if peers = peersOf(t); len(peers.Contexts) != 1 || len(peers.AuthInfos) != 1 {
		t.Errorf("contexts %v after leave", peers.Contexts)
	}
	declareGone(t)
	if _, err := command(t, env.Config, "leave", "green"); err == nil || !strings.Contains(err.Error(), "cluster green is no context of Secret limpet-system/limpet-peers") {
		t.Errorf("a second leave: %v", err)
	}
}

// declareGone takes cluster red out of the budgets that name it, and out of no other.
func declareGone(t *testing.T) {
	t.Helper()
	ns := env.Namespace(t)
	for name, clusters := range map[string][]string{"three": {"blue", "green", "red"}, "two": {"blue", "green"}} {
		b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, new(intstr.FromInt32(1))
		for _, c := range clusters {
			b.Spec.Federation = append(b.Spec.Federation, limpetv1alpha1.BudgetPeer{Cluster: c, Name: name})
		}
		env.Create(t, b)
	}
	out, err := command(t, env.Config, "leave", "red", "--gone")
	if err != nil || !strings.Contains(out, ns+"/three no longer counts with cluster red") || strings.Contains(out, "/two") {
		t.Errorf("leave --gone: %v, %q", err, out)
	}
	for _, name := range []string{"three", "two"} {
		var b limpetv1alpha1.DistributedPodDisruptionBudget
		env.Read(t, client.ObjectKey{Namespace: ns, Name: name}, &b)
		if len(b.Spec.Federation) != 2 || b.Spec.Federation[1].Cluster != "green" {
			t.Errorf("%s counts with %v", name, b.Spec.Federation)
		}
	}
	if peers := peersOf(t); len(peers.Contexts) != 0 {
		t.Errorf("contexts %v", peers.Contexts)
	}
}

// TestAClusterIsGoneThatLeftBefore declares a cluster gone that left before, in budgets of a newer version. The budget
// itself is the last entry, which partitionPolicy and child need, and a budget that cannot be changed stops no other.
func TestAClusterIsGoneThatLeftBefore(t *testing.T) {
	testenv.Beside(t, &env)
	env.AsController(t) // makes limpet-system
	crd := &apiextensionsv1.CustomResourceDefinition{}
	env.Read(t, client.ObjectKey{Name: "distributedpoddisruptionbudgets.limpet.dev"}, crd)
	env.Change(t, crd, func() {
		newer := apiextensionsv1.JSONSchemaProps{Type: "string"}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["newer"], spec.Properties["federation"].Items.Schema.Properties["newer"] = newer, newer
		held := apiextensionsv1.ValidationRule{Rule: "!has(self.newer) || self.newer != 'held' || size(self.federation) > 1", Message: "is held"}
		spec.XValidations = append(spec.XValidations, held)
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	})
	ns := env.Namespace(t)
	peer := func(cluster string) any { return map[string]any{"cluster": cluster, "name": "db", "newer": "kept"} }
	key := client.ObjectKey{Namespace: ns, Name: "db"}
	budget := func(peers ...any) *unstructured.Unstructured {
		b := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": ns, "name": "db"}, "spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "db"}}, "minAvailable": int64(8), "newer": "kept", "federation": peers,
			"partitionPolicy": "Reserved", "child": "PodDisruptionBudget",
		}}}
		b.SetGroupVersionKind(limpetv1alpha1.GroupVersion.WithKind("DistributedPodDisruptionBudget"))
		return b
	}
	testenv.Eventually(t, func() error { // the API server needs a moment for the newer version
		b := budget(peer("red"), peer("blue"), peer("red"), peer("green"))
		if err := env.Client.Create(t.Context(), b); err != nil {
			return err
		}
		if b.Object["spec"].(map[string]any)["newer"] == nil {
			return errors.Join(errors.New("the newer version is not served yet"), env.Client.Delete(t.Context(), b))
		}
		return nil
	})
	held := budget(peer("red"), peer("yellow"))
	held.SetName("a-held")
	held.Object["spec"].(map[string]any)["newer"] = "held"
	env.Create(t, held)
	for _, tc := range []struct {
		gone   string
		want   []any
		failed string
	}{
		{"red", []any{peer("blue"), peer("green")}, ns + "/a-held"},
		{"green", []any{peer("blue")}, ""},
		{"blue", []any{map[string]any{"name": "db"}}, ""},
	} {
		out, err := command(t, env.Config, "leave", tc.gone, "--gone")
		if (err != nil) != (tc.failed != "") || err != nil && !strings.Contains(err.Error(), tc.failed) {
			t.Errorf("leave %s: %v, want %q", tc.gone, err, tc.failed)
		}
		if want := "Its minAvailable is 8: lower it by the pods of cluster " + tc.gone; strings.Count(out, want) != 1 {
			t.Errorf("leave %s: %s, want %q", tc.gone, out, want)
		}
		b := budget()
		env.Read(t, key, b)
		spec := b.Object["spec"].(map[string]any)
		if got, _ := spec["federation"].([]any); spec["newer"] != "kept" || !cmp.Equal(got, tc.want) {
			t.Errorf("without %s: %v, want the peers %v and what is newer", tc.gone, spec, tc.want)
		}
	}
	if _, err := command(t, env.Config, "leave", "red", "--gone"); err == nil || !strings.Contains(err.Error(), "cluster red is no context") {
		t.Errorf("a cluster that nothing names: %v", err)
	}
}

// giveToken does what kube-controller-manager does for the Secret of an account.
func giveToken(t *testing.T) {
	t.Helper()
	var secret corev1.Secret
	testenv.Eventually(t, func() error {
		return env.Client.Get(t.Context(), client.ObjectKey{Namespace: "limpet-system", Name: "limpet-peer"}, &secret)
	})
	token := env.Token(t, "limpet-peer", "").BearerToken
	env.Change(t, &secret, func() { secret.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)} })
}

func peersOf(t *testing.T) *clientcmdapi.Config {
	t.Helper()
	var secret corev1.Secret
	env.Read(t, client.ObjectKey{Namespace: "limpet-system", Name: "limpet-peers"}, &secret)
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	return config
}
