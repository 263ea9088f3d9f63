package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestNodeLabel checks that each name of a node gives a valid label, which is the name itself if it fits.
func TestNodeLabel(t *testing.T) {
	seen := map[string]string{}
	for _, node := range []string{
		"n1", "ip-10-0-0-1.eu-west-1.compute.internal", strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 63) + "b", strings.Repeat("a", 49) + "." + strings.Repeat("b", 60), strings.Repeat("a", 253),
	} {
		label := v1alpha1.NodeLabel(node)
		if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
			t.Errorf("%s: %q: %v", node, label, problems)
		}
		if (label == node) != (len(node) <= 63) {
			t.Errorf("%s: %q", node, label)
		}
		if other, taken := seen[label]; taken {
			t.Errorf("%s and %s have the label %s", node, other, label)
		}
		seen[label] = node
	}
}
