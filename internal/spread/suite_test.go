package spread_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/testenv"
)

const zone = corev1.LabelTopologyZone

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func is(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// inZone is a subset of a zone's nodes. A negative number is no maximum.
func inZone(name string, most int32) spread.Subset {
	s := spread.Subset{Name: name, Required: &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{is(zone, name)}}}
	if most >= 0 {
		s.Max = new(most)
	}
	return s
}

func of(subsets ...spread.Subset) spread.Spread { return spread.Spread{Name: "ws", Subsets: subsets} }

// skipping is a subset that takes no pods for now.
func skipping(s spread.Subset) spread.Subset {
	s.Unschedulable = true
	return s
}

func aNode(name, in string) *corev1.Node { return testenv.ANode(name).Labelled(zone, in).Node }

// aPod is a pod that runs on a node.
func aPod(name, node string) *corev1.Pod {
	p := testenv.APod(name).On(node).Pod
	p.UID = types.UID(name)
	p.CreationTimestamp = metav1.NewTime(start)
	return p
}
