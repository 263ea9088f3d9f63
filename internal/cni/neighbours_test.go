package cni_test

import (
	"fmt"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestNeighboursForgetOnlyReturningAddresses(t *testing.T) {
	w := newTestNode(t)
	s := web0
	s.annotations = map[string]string{reservation.RetainAnnotation: "10"}
	had, err := w.add(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.forgot) != 0 {
		t.Errorf("a first ADD made the node forget %v", w.forgot)
	}
	if err := w.del(s); err != nil {
		t.Fatal(err)
	}
	s.id = "c1"
	if _, err := w.add(s); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(w.forgot) != fmt.Sprint(had) {
		t.Errorf("the node forgot %v, want %v", w.forgot, had)
	}
}
