package tokens_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Every policy that users apply is bound, refuses, and names a service account that users
// apply too: a policy for an account in another namespace would never apply.
func TestEveryPolicyIsInForce(t *testing.T) {
	policies, bindings, accounts := map[string]*admissionv1.ValidatingAdmissionPolicy{}, map[string]bool{}, []string(nil)
	for _, o := range env.Render(t, "deploy/default") {
		decode := func(into any) {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
				t.Fatal(err)
			}
		}
		switch o.GetKind() {
		case "ServiceAccount":
			accounts = append(accounts, "request.userInfo.username == 'system:serviceaccount:"+o.GetNamespace()+":"+o.GetName()+"'")
		case "ValidatingAdmissionPolicy":
			p := &admissionv1.ValidatingAdmissionPolicy{}
			decode(p)
			policies[p.Name] = p
		case "ValidatingAdmissionPolicyBinding":
			var b admissionv1.ValidatingAdmissionPolicyBinding
			decode(&b)
			bindings[b.Spec.PolicyName] = slices.Equal(b.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) && b.Spec.MatchResources == nil
		}
	}
	if len(policies) < 8 || len(accounts) != 2 {
		t.Errorf("%d policies and the accounts %v: this tests little", len(policies), accounts)
	}
	for name, p := range policies {
		if !bindings[name] {
			t.Errorf("no binding makes policy %s refuse", name)
		}
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("policy %s lets pass what it cannot judge", name)
		}
		ofUsers := strings.HasPrefix(name, "limpet-re") || strings.HasPrefix(name, "limpet-owners") || name == "limpet-kept" // limpet-release, limpet-reservations and those of pods
		if !ofUsers && (len(p.Spec.MatchConditions) != 1 || !slices.Contains(accounts, strings.TrimSpace(p.Spec.MatchConditions[0].Expression))) {
			t.Errorf("policy %s is for %v, want one of %v", name, p.Spec.MatchConditions, accounts)
		}
		for _, v := range p.Spec.Validations {
			if v.Message == "" && v.MessageExpression == "" {
				t.Errorf("policy %s refuses without a message: %s", name, v.Expression)
			}
		}
	}
}

// A probe that is answered within a second on a quiet node flaps on a busy one.
func TestProbesWaitForAnAnswer(t *testing.T) {
	probes := 0
	for _, path := range []string{"deploy/controller/deployment.yaml", "deploy/daemonset/daemonset.yaml", "deploy/uninstall/daemonset.yaml"} {
		for _, o := range env.Manifest(t, path) {
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range containers {
				for _, kind := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
					probe, has := c.(map[string]any)[kind].(map[string]any)
					if !has {
						continue
					}
					probes++
					if seconds, _ := probe["timeoutSeconds"].(int64); seconds < 5 {
						t.Errorf("%s: the %s gives up after %d s, want 5 or more", path, kind, seconds)
					}
				}
			}
		}
	}
	if probes < 6 {
		t.Errorf("found %d probes: this tests little", probes)
	}
}
