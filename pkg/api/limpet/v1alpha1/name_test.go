package v1alpha1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestALoanHasTheNameOfItsOwner names loans of owners that look alike. No two names are the same, and all are valid.
func TestALoanHasTheNameOfItsOwner(t *testing.T) {
	if got := (v1alpha1.BorrowedAddressSpec{Pod: "web-0", Interface: "eth0", Network: "limpet"}).ObjectName(); got != "web-0.eth0.limpet" {
		t.Errorf("name %q", got)
	}
	names := map[string]v1alpha1.BorrowedAddressSpec{}
	for _, s := range []v1alpha1.BorrowedAddressSpec{
		{Pod: "a", Interface: "b", Network: "c.d"},
		{Pod: "a", Interface: "b.c", Network: "d"},
		{Pod: "a.b", Interface: "c", Network: "d"},
		{Pod: "apps/Deployment/a/b", Interface: "eth0", Network: "limpet"},
		{Pod: "apps/Deployment/a", Interface: "b/eth0", Network: "limpet"},
		{Pod: "a", Interface: "B", Network: "c"},
		{Pod: "a", Interface: "b", Network: "c"},
	} {
		name := s.ObjectName()
		if other, taken := names[name]; taken {
			t.Errorf("%+v and %+v are both %s", s, other, name)
		}
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			t.Errorf("%+v is %s: %v", s, name, wrong)
		}
		names[name] = s
	}
}
