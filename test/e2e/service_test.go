package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// served is a StatefulSet behind a Service. Its pods end as soon as they are told to.
func served(name string, replicas int, annotations string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: served}
spec:
  selector: {app: %[1]s}
  ports: [{port: 8080}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s, namespace: served}
spec:
  serviceName: %[1]s
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations: {%[3]s}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: main
          image: cilium/echoserver:latest
          imagePullPolicy: IfNotPresent
          readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 10}
---
`, name, replicas, annotations)
}

// departure is when a pod was first seen without a ready endpoint, and when it was first seen terminating.
type departure struct {
	pod         string
	unready, on time.Time
}

// departures looks at the pods and endpoints of a Service until the context ends.
func departures(ctx context.Context, service string) map[types.UID]*departure {
	seen := map[types.UID]*departure{}
	for ctx.Err() == nil {
		slices, err := theBed.Client.DiscoveryV1().EndpointSlices("served").List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
		pods, err2 := theBed.Client.CoreV1().Pods("served").List(ctx, metav1.ListOptions{LabelSelector: "app=" + service})
		now, ready, there := time.Now(), map[types.UID]bool{}, map[types.UID]bool{}
		if err != nil || err2 != nil {
			continue
		}
		for _, s := range slices.Items {
			for _, e := range s.Endpoints {
				if e.TargetRef != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
					ready[e.TargetRef.UID] = true
				}
			}
		}
		for _, p := range pods.Items {
			there[p.UID] = true
			if d := seen[p.UID]; d == nil && ready[p.UID] {
				seen[p.UID] = &departure{pod: p.Name}
			} else if d != nil && d.on.IsZero() && p.DeletionTimestamp != nil {
				d.on = now
			}
		}
		for uid, d := range seen {
			if d.unready.IsZero() && !ready[uid] {
				d.unready = now
			}
			if d.on.IsZero() && !there[uid] { // it went between two looks
				d.on = now
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return seen
}

// connect opens connections to a Service from a node until the context ends, and returns how many succeeded and how many
// were refused. A machine that is busy lets some time out.
func connect(ctx context.Context, node, service string) (out string, err error) {
	ip, err := theBed.Kubectl(ctx, "get", "service", "-n", "served", service, "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return "", err
	}
	stop := "/tmp/stop-" + service
	go func() {
		<-ctx.Done()
		_, _ = theBed.Cluster.Exec(context.WithoutCancel(ctx), node, "touch", stop)
	}()
	text, err := theBed.Cluster.Exec(context.WithoutCancel(ctx), node, "timeout", "600", "bash", "-c", `ok=0 late=0 refused=0
		until [ -e "$0" ]; do
			timeout 2 bash -c "exec 3<>/dev/tcp/$1/8080" 2>/dev/null
			case $? in 0) ok=$((ok+1));; 124) late=$((late+1));; *) refused=$((refused+1));; esac
		done
		rm "$0"; echo "$ok connections, $late late, $refused refused"`, stop, ip)
	return strings.TrimSpace(string(text)), err
}

// TestAPodLeavesItsServiceBeforeItGoes rolls two StatefulSets, whose controller waits until all pods are Ready. One asks to
// be out of service first: no client of it is refused. Then a pod of it is evicted, and one is changed in place.
func TestAPodLeavesItsServiceBeforeItGoes(t *testing.T) {
	namespace(t, "served")
	rollBoth(t, 2)
	start := time.Now()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "served", Name: "first-0"}}
	if err := theBed.Client.CoreV1().Pods("served").EvictV1(t.Context(), eviction); err != nil {
		t.Errorf("an eviction that the client library repeats: %v", err)
	}
	took := time.Since(start)
	if t.Logf("evicted after %s", took); took < 6*time.Second {
		t.Errorf("evicted after %s, want 6s at least", took)
	}
	start = time.Now()
	kubectl(t, "patch", "pod", "-n", "served", "first-1", "-p", `{"spec":{"containers":[{"name":"main","image":"docker.io/cilium/echoserver:latest"}]}}`)
	took = time.Since(start)
	if t.Logf("changed in place after %s", took); took < 6*time.Second {
		t.Errorf("changed after %s, want 6s at least", took)
	}
	await(t, time.Minute, "the changed pod to be back", func(ctx context.Context) (bool, string) {
		pod, err := theBed.Client.CoreV1().Pods("served").Get(ctx, "first-1", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		ready, back := false, false
		for _, c := range pod.Status.Conditions {
			ready = ready || c.Type == "Ready" && c.Status == "True"
			back = back || c.Type == "limpet.dev/in-service" && c.Status == "True" && c.Reason == "Changed"
		}
		return ready && back && pod.Status.ContainerStatuses[0].RestartCount == 1, fmt.Sprintf("%+v", pod.Status.Conditions)
	})
	t.Logf("back after %s", time.Since(start))
}

// TestNoClientIsRefusedThroughALongRollingUpdate is that for 18 pods a set. It takes five minutes.
func TestNoClientIsRefusedThroughALongRollingUpdate(t *testing.T) {
	long(t)
	namespace(t, "served")
	rollBoth(t, 18)
}

// rollBoth rolls a StatefulSet that asks for nothing, and one that asks to be out of service first.
func rollBoth(t *testing.T, replicas int) {
	t.Helper()
	apply(t, served("plain", replicas, "")+served("first", replicas, "limpet.dev/drain-first: 6s"))
	t.Run("roll", func(t *testing.T) {
		for _, name := range []string{"plain", "first"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				roll(t, name, replicas, name == "first")
			})
		}
	})
}

// rolled waits until all pods of a StatefulSet are new.
func rolled(t *testing.T, name string) {
	t.Helper()
	await(t, 10*time.Minute, "rollout of "+name, func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "rollout", "status", "-n", "served", "statefulset/"+name, "--timeout=60s")
		return err == nil, out
	})
}

// roll rolls a StatefulSet while clients connect to its Service, and judges how its pods went.
func roll(t *testing.T, name string, replicas int, first bool) {
	t.Helper()
	rolled(t, name)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen, connected := make(chan map[types.UID]*departure, 1), make(chan string, 1)
	go func() { seen <- departures(ctx, name) }()
	go func() {
		out, err := connect(ctx, "n1", name)
		if err != nil {
			t.Error(err)
		}
		connected <- out
	}()
	start := time.Now()
	kubectl(t, "rollout", "restart", "-n", "served", "statefulset/"+name)
	rolled(t, name)
	took := time.Since(start)
	cancel()
	out, gone := <-connected, 0
	t.Logf("rolled in %s; %s", took.Round(100*time.Millisecond), out)
	if first && !strings.HasSuffix(out, " 0 refused") {
		t.Errorf("clients were refused: %s", out)
	}
	for _, d := range <-seen {
		if d.on.IsZero() {
			continue
		}
		gone++
		lead := d.on.Sub(d.unready)
		t.Logf("%s had no ready endpoint %s before its deletion began", d.pod, lead.Round(10*time.Millisecond))
		if first && (d.unready.IsZero() || lead <= 0) {
			t.Errorf("%s left its Service %s before it went, want 6s but for the time of the endpoints' controller", d.pod, lead)
		}
	}
	if gone != replicas {
		t.Errorf("%d pods went, want %d", gone, replicas)
	}
}
