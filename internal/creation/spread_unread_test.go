package creation_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A pod of an open namespace is created although its spread cannot be read. A warning, an event of
// its owner and a metric tell it. A namespace has one such event of each replica at a time, however
// many owners a tenant invents.
func TestAPodWhoseSpreadCannotBeReadIsTold(t *testing.T) {
	serve(t)
	c, heard := env.Listen(t)
	ns, closed := env.Namespace(t), closedNamespace(t)
	d, rs := aDeployment(t, ns, 3)
	_, ofClosed := aDeployment(t, closed, 3)
	var forged []*appsv1.ReplicaSet
	for i := range 6 {
		forged = append(forged, aReplicaSet(t, d, fmt.Sprint("forged-", i)))
	}
	other := aSpread(ns, "other", "apps/v1", "Deployment", "other", "a")
	other.Annotations = map[string]string{appsv1beta1.AnnotationSpreadFailure: appsv1beta1.SpreadOpen}
	env.Create(t, other, aSpread(closed, "other", "apps/v1", "Deployment", "other", "a"))
	sent(t, generated(rs))
	sent(t, generated(ofClosed))
	foreseen(t, "", generated(rs))
	unreadSpreads.Store(true)
	defer unreadSpreads.Store(false)
	before := decided(t, "SpreadNotRead")
	copied := generated(rs) // as from a template that was copied from a pod
	copied.Annotations = map[string]string{appsv1beta1.AnnotationMatchedSpread: `{"name":"web","subset":"a","uid":"x"}`}
	if err := c.Create(t.Context(), copied.DeepCopy(), client.DryRunAll); err != nil {
		t.Error(err)
	}
	if err := c.Create(t.Context(), copied); err != nil || subsetOf(copied) != "" {
		t.Errorf("subset %q, %v", subsetOf(copied), err)
	}
	env.RemoveAtEnd(t, copied)
	countedOnce(t, "SpreadNotRead", before)
	if err := heard.Names("created without a subset: "); err != nil {
		t.Error(err)
	}
	env.Told(t, rs, "SpreadNotRead", errUnread.Error())
	told := 0
	for _, owner := range forged {
		admitted(t, generated(owner))
	}
	if n := decided(t, "SpreadNotRead") - before; n != 7 {
		t.Errorf("%v pods were counted", n)
	}
	for _, owner := range forged {
		told += env.CountEvents(t, owner, "SpreadNotRead")
	}
	if told > 1 {
		t.Errorf("%d events of further owners, want one of the other replica at most", told)
	}
	admitted(t, testenv.APod("kept-0").In(ns).Of(rs, replicaSets).With(retainAnnotation, "10").Pod)
	err := env.Client.Create(t.Context(), generated(ofClosed))
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), errUnread.Error()) {
		t.Errorf("a pod of a closed namespace: %v", err)
	}
}

// A pod whose subset cannot be computed is not one whose entry could not be written.
func TestAPodWithoutAnOrdinalIsNotToldAsUnbooked(t *testing.T) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns).StatefulSet
	put(t, set)
	s := aSpread(ns, "web", "apps/v1", "StatefulSet", "web", "a")
	env.Create(t, s)
	sent(t, testenv.APod("web-x").In(ns).OwnedBy(set).Pod)
	before := decided(t, "SpreadNotRead")
	placed(t, "", testenv.APod("web-x").In(ns).OwnedBy(set).Pod)
	countedOnce(t, "SpreadNotRead", before)
	env.Told(t, s, "SpreadNotRead", "no ordinal")
}
