package main

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Of the namespaces those are read that have limpet.dev/keep; of one namespace no other.
func TestNamespacesThatAskAreRead(t *testing.T) {
	reader := facts.Reader{Client: env.Client, Now: time.Now}
	asks, other, silent := env.Namespace(t), env.Namespace(t), env.Namespace(t)
	for _, name := range []string{asks, other} {
		env.Annotate(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, reservation.KeepAnnotation, "10m")
	}
	for namespace, want := range map[string][]string{"": {asks, other}, asks: {asks}, silent: nil, "missing": nil} {
		f, err := reader.Read(t.Context(), namespace, facts.Namespaces)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ns := range f.Namespaces {
			got = append(got, ns.Name)
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) || len(f.Unread) > 0 {
			t.Errorf("namespace %q: read %v, unread %v, want %v", namespace, got, f.Unread, want)
		}
	}
}
