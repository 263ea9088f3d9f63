package chaos

import "fmt"

// Namespace holds the workloads that are disturbed.
const Namespace = "chaos"

// pods is how many pods the workloads have.
const pods = 18

// manifest has four workloads: db returns to its nodes if it can, pay must return, the addresses of roam follow its pods, and
// web is spread. A budget guards each. Reservations last for longer than a run.
func manifest() string {
	container := `containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent, readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}]`
	set := func(name, annotations, asks string, replicas int) string {
		return fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: %[1]s
  namespace: chaos
  annotations: {%[2]s}
spec:
  serviceName: %[1]s
  replicas: %[3]d
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s, chaos: "yes"}
      annotations: {%[5]s}
    spec:
      terminationGracePeriodSeconds: 1
      %[4]s
`, name, annotations, replicas, container, asks)
	}
	budget := func(name string, away int) string {
		return fmt.Sprintf(`apiVersion: policy.kruise.io/v1alpha1
kind: PodUnavailableBudget
metadata: {name: %[1]s, namespace: chaos, annotations: {limpet.dev/failure-policy: Closed}}
spec:
  selector: {matchLabels: {app: %[1]s}}
  maxUnavailable: %[2]d
`, name, away)
	}
	const split = "---\n"
	const returns, keeps = `kruise.io/auto-generate-persistent-pod-state: "true", kruise.io/%s-persistent-topology: kubernetes.io/hostname`, `io.kubernetes.cri/reserved-ip-duration: "60"`
	return set("db", fmt.Sprintf(returns, "preferred"), keeps, 6) + split + set("pay", fmt.Sprintf(returns, "required"), keeps, 3) + split +
		set("roam", "", "limpet.dev/retention: follow", 3) + split + budget("roam", 1) + split + budget("db", 3) + split + budget("pay", 1) + split + budget("web", 3) + split +
		`apiVersion: apps.kruise.io/v1alpha1
kind: WorkloadSpread
metadata: {name: web, namespace: chaos}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  subsets:
  - name: first
    requiredNodeSelectorTerm: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1, n2]}]}
    maxReplicas: 3
  - name: rest
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: chaos}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, chaos: "yes"}}
    spec:
      terminationGracePeriodSeconds: 1
      ` + container + "\n"
}
