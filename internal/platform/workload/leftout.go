package workload

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeftOut returns the namespaces whose pods are never sent to the webhooks: neither the cluster nor the controller
// itself may wait for the controller.
func LeftOut() []string { return []string{metav1.NamespaceSystem, "limpet-system"} }

// IsLeftOut reports whether the pods of a namespace are never sent to the webhooks.
func IsLeftOut(namespace string) bool { return slices.Contains(LeftOut(), namespace) }
