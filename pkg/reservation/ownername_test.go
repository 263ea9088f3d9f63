package reservation_test

import (
	"strings"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// A name of an owner is one that no pod can have. Any other value of the annotation leaves the pod its own name.
func TestOwnerName(t *testing.T) {
	for name, tc := range map[string]struct{ value, want string }{
		"none":                       {"", "web-1"},
		"not completed":              {"db", "web-1"},
		"the name of a pod":          {"web-0", "web-1"},
		"of a controller":            {"apps/Deployment/web/db", "apps/Deployment/web/db"},
		"of the core group":          {"/ReplicationController/web/db", "/ReplicationController/web/db"},
		"of a pod without one":       {"///db", "///db"},
		"too few parts":              {"Deployment/web/db", "web-1"},
		"too many parts":             {"apps/Deployment/web/db/x", "web-1"},
		"what ends a key":            {"apps/Deployment/web/d\x00b", "web-1"},
		"a space":                    {"apps/Deployment/web/d b", "web-1"},
		"longer than a status takes": {"apps/Deployment/web/" + strings.Repeat("a", 254), "web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reservation.OwnerName("web-1", map[string]string{reservation.OwnerAnnotation: tc.value}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// The owner name of a claim is that of no other claim, and of no pod of a controller that is a claim.
func TestClaimOwner(t *testing.T) {
	for name, tc := range map[string]struct{ owner, want string }{
		"of a claim":            {reservation.ClaimOwner("vm-a.blue"), "vm-a.blue"},
		"of no claim":           {reservation.ClaimOwner(""), ""},
		"of two parts":          {reservation.ClaimOwner("a/b"), ""},
		"too long":              {reservation.ClaimOwner(strings.Repeat("a", 253)), ""},
		"of a controller":       {"apps/Deployment/web/ips", ""},
		"of another owner name": {"k8s.cni.cncf.io/IPAMClaim/vm-a.blue/db", ""},
		"of a pod":              {"vm-a", ""},
		"of no object":          {"k8s.cni.cncf.io/IPAMClaim/../ips", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reservation.ClaimOf(tc.owner); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
