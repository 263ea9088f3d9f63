package budget

import (
	"slices"
	"strings"
)

// Users of the control plane. kube-controller-manager has one service account for each
// controller with --use-service-account-credentials, as kubeadm and all known providers set
// it, and userControllerManager otherwise. A tenant can make a service account of the same
// name in its own namespace only, and the namespace is part of the user.
const (
	userScheduler         = "system:kube-scheduler"
	userControllerManager = "system:kube-controller-manager"

	accounts         = "system:serviceaccount:" // begins the names of all service accounts
	systemAccount    = accounts + "kube-system:"
	userGarbage      = systemAccount + "generic-garbage-collector"
	userNamespaces   = systemAccount + "namespace-controller"
	userPodGC        = systemAccount + "pod-garbage-collector"
	userNodes        = systemAccount + "node-controller"
	userDeviceTaints = systemAccount + "device-taint-eviction-controller"
)

// Observes reports whether a user writes what a pod is like, and does not make it so: a kubelet, and the
// controller that tells of nodes whose kubelets are silent.
func Observes(user string, groups []string) bool {
	return slices.Contains(groups, groupNodes) || user == userControllerManager || user == userNodes
}

// groupNodes has all kubelets.
const groupNodes = "system:nodes"

// workloadControllers delete surplus pods.
var workloadControllers = []string{
	systemAccount + "replicaset-controller",
	systemAccount + "replication-controller",
	systemAccount + "statefulset-controller",
	systemAccount + "daemon-set-controller",
	systemAccount + "job-controller",
}

// mayControl reports whether a user may be the controller of a workload: one of Kubernetes, or any service account
// outside kube-system, where other programs delete pods.
func mayControl(user string) bool {
	return slices.Contains(workloadControllers, user) || user == userControllerManager ||
		strings.HasPrefix(user, accounts) && !strings.HasPrefix(user, systemAccount)
}

// reasonTaint is the reason of the condition DisruptionTarget that the taint manager writes.
// Kubernetes has no constant for it.
const reasonTaint = "DeletionByTaintManager"
