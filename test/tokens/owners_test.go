package tokens_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The garbage collector deletes a configuration whose owner has another UID than the one in
// the reference. So only the live namespace can become the owner.
func TestOnlyTheLiveNamespaceOwnsTheWebhooks(t *testing.T) {
	v := newVictims(t)
	c := env.As(t, env.Token(t, controller, v.node.Name))
	var namespace corev1.Namespace
	env.Read(t, client.ObjectKey{Name: "limpet-system"}, &namespace)
	owner := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "limpet-system", UID: uid}
	}
	own := func(owners ...metav1.OwnerReference) request {
		return update(v.mutating, func(m *admissionv1.MutatingWebhookConfiguration) { m.OwnerReferences = owners })
	}
	live, former := owner(namespace.UID), owner("of-a-former-namespace")
	holds := live
	holds.BlockOwnerDeletion = new(true)
	steps := []struct {
		what    string
		refused bool
		do      request
	}{
		{"another UID", true, own(former)},
		{"another UID beside the live one", true, own(live, former)},
		{"one that holds up the deletion of the namespace", true, own(holds)},
		{"the live UID", false, own(live)},
		{"another UID in its place", true, own(former)},
		{"the live one again", false, own(live)},
	}
	for _, step := range steps {
		t.Run(step.what, func(t *testing.T) {
			if step.refused {
				refused(t, c, denied, step.do)
				return
			}
			allowed(t, c, step.do)
		})
	}
	// A user has restored the configuration of a former installation from a backup.
	env.Read(t, client.ObjectKeyFromObject(v.mutating), v.mutating)
	v.mutating.OwnerReferences = []metav1.OwnerReference{former, {APIVersion: "v1", Kind: "ConfigMap", Name: "chart", UID: "x"}}
	if err := env.Client.Update(t.Context(), v.mutating); err != nil {
		t.Fatal(err)
	}
	chart := v.mutating.OwnerReferences[1]
	t.Run("remove the owner of a user", func(t *testing.T) { refused(t, c, denied, own(live)) })
	t.Run("replace a former namespace", func(t *testing.T) { allowed(t, c, own(chart, live)) })
}
