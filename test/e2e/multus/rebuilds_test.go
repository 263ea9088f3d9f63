package multus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/holders"
)

// replicas is the number of pods in testdata/pods.yaml.
const replicas = 6

// interfaces are those of each pod, and what the addresses of each begin with.
var interfaces = map[string]string{"eth0": "10.", "wire0": "192.168.50.", "net2": "192.168.60."}

func all(string) bool { return true }

func secondary(ifName string) bool { return ifName != "eth0" }

// life is a pod in one of its lives.
type life struct {
	node     string
	uid      types.UID
	restarts int32
	// addresses has that of each interface, as the kernel has it.
	addresses map[string]string
}

// rebuilds counts over all steps. The key is true for secondary interfaces.
type rebuilds struct {
	bed      *bed.Bed
	lives    map[string]life
	kept, of map[bool]int
}

// awaitFirst waits for the first life. A pod that started before the runtime had read the configuration of Multus has
// one interface, and starts again.
func (r *rebuilds) awaitFirst(t *testing.T) {
	t.Helper()
	r.kept, r.of = map[bool]int{}, map[bool]int{}
	await(t, "pods with three interfaces", func(ctx context.Context) (bool, string) {
		lives, err := r.look(ctx)
		if err != nil {
			return false, err.Error()
		}
		r.lives = lives
		for name, l := range lives {
			if len(l.addresses) == 1 {
				_, err = r.bed.Kubectl(ctx, "delete", "pod", name)
				return false, fmt.Sprint(name, " has one interface ", err)
			}
		}
		return len(lives) == replicas, fmt.Sprint(lives)
	})
}

// step rebuilds all pods, and compares those interfaces that count.
func (r *rebuilds) step(t *testing.T, name string, counts func(ifName string) bool, do func()) {
	t.Helper()
	r.rebuild(t, name, counts, func(life) bool { return true }, do)
}

// stepOn rebuilds the pods of one node.
func (r *rebuilds) stepOn(t *testing.T, name, node string, do func()) {
	t.Helper()
	r.rebuild(t, name, all, func(l life) bool { return l.node == node }, do)
}

func (r *rebuilds) rebuild(t *testing.T, name string, counts func(string) bool, concerned func(life) bool, do func()) {
	t.Helper()
	before := r.lives
	do()
	await(t, "pods after: "+name, func(ctx context.Context) (bool, string) {
		lives, err := r.look(ctx)
		if err != nil || len(lives) != replicas {
			return false, fmt.Sprint(len(lives), err)
		}
		r.lives = lives
		for pod, l := range lives {
			if was := before[pod]; len(l.addresses) != len(interfaces) || concerned(was) && was.uid == l.uid && was.restarts == l.restarts {
				return false, fmt.Sprintf("%s was %+v, is %+v", pod, was, l)
			}
		}
		return true, ""
	})
	kept, of := 0, 0
	for pod, was := range before {
		for ifName, address := range was.addresses {
			now := r.lives[pod]
			if !concerned(was) || !counts(ifName) {
				continue
			}
			of++
			r.of[secondary(ifName)]++
			if now.node == was.node && now.addresses[ifName] == address {
				kept++
				r.kept[secondary(ifName)]++
			} else {
				t.Errorf("%s: %s of %s was %s on %s, is %s on %s", name, ifName, pod, address, was.node, now.addresses[ifName], now.node)
			}
		}
	}
	t.Logf("%s: kept %d/%d", name, kept, of)
}

// fullest returns the node with the most pods.
func (r *rebuilds) fullest() (node string) {
	count := map[string]int{}
	for _, l := range r.lives {
		if count[l.node]++; count[l.node] > count[node] {
			node = l.node
		}
	}
	return node
}

// awaitSeen waits until the state knows what each interface asks for. The agents read it for eth0, and leave what own-0
// asks for by its cni-args.
func (r *rebuilds) awaitSeen(t *testing.T) {
	t.Helper()
	want := map[string]int{"own-0 eth0": 0, "own-0 net1": 7 * 60}
	for pod := range r.lives {
		for ifName := range interfaces {
			want[pod+" "+ifName] = 30 * 60
		}
	}
	await(t, "the state to know what each interface asks for", func(ctx context.Context) (bool, string) {
		got := map[string]int{}
		for _, node := range r.bed.Cluster.Nodes() {
			out, err := r.bed.Cluster.Exec(ctx, node, "/opt/cni/bin/limpet-ipam", "list", "-o", "json")
			var held []struct {
				Namespace, Pod, Interface string
				RetainSeconds             int
				AnnotationsSeen           bool `json:"wishKnown"`
			}
			if err != nil || json.Unmarshal(out, &held) != nil {
				return false, fmt.Sprintf("%s: %s %v", node, out, err)
			}
			for _, h := range held {
				if h.Namespace == "default" && h.AnnotationsSeen {
					got[h.Pod+" "+h.Interface] = h.RetainSeconds
				}
			}
		}
		return maps.Equal(got, want), fmt.Sprint(got)
	})
}

// look returns the Ready pods, with the addresses that their sandboxes have.
func (r *rebuilds) look(ctx context.Context) (map[string]life, error) { return r.lookAt(ctx, "many") }

// lookAt is look for the pods of a workload.
func (r *rebuilds) lookAt(ctx context.Context, app string) (map[string]life, error) {
	pods, err := r.bed.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	seen := map[string][]holders.Sighting{}
	lives := map[string]life{}
	for _, p := range pods.Items {
		node := p.Spec.NodeName
		if !bed.Ready(&p) || p.DeletionTimestamp != nil {
			continue
		}
		if seen[node] == nil {
			out, err := r.bed.Cluster.Exec(ctx, node, "sh", "-c", holders.Look)
			if err != nil {
				return nil, err
			}
			seen[node] = holders.Parse(string(out))
		}
		lives[p.Name] = life{node, p.UID, p.Status.ContainerStatuses[0].RestartCount, addressesOf(p, seen[node])}
	}
	return lives, nil
}

// addressesOf returns the IPv4 addresses of the sandbox that has the pod's, by interface.
func addressesOf(p corev1.Pod, seen []holders.Sighting) map[string]string {
	addresses := map[string]string{}
	for _, s := range seen {
		if podIP, err := netip.ParseAddr(p.Status.PodIP); err != nil || !slices.Contains(s.Addrs, podIP) {
			continue
		}
		for _, addr := range s.Addrs {
			for ifName, prefix := range interfaces {
				if strings.HasPrefix(addr.String(), prefix) {
					addresses[ifName] = addr.String()
				}
			}
		}
	}
	return addresses
}

// next waits for a pod of a Deployment whose name is not the former one.
func (r *rebuilds) next(t *testing.T, app, former string) (name string, l life) {
	t.Helper()
	await(t, "a pod of "+app, func(ctx context.Context) (bool, string) {
		seen, err := r.lookAt(ctx, app)
		for name, l = range seen {
			if name != former {
				return true, ""
			}
		}
		return false, fmt.Sprint(seen, err)
	})
	return name, l
}

// ownerReturns rebuilds the pod of a Deployment. Its secondary network knows the owner.
func (r *rebuilds) ownerReturns(t *testing.T) {
	t.Helper()
	apply(t, r.bed, "owned.yaml")
	first, before := r.next(t, "owned", "")
	await(t, "an IPReservation of the owner", func(ctx context.Context) (bool, string) {
		shown, err := r.bed.Kubectl(ctx, "get", "ipreservations", "-o", `jsonpath={.items[?(@.status.pod=="apps/Deployment/owned/db")].status.interface}`)
		return strings.Contains(shown, "net1"), fmt.Sprint(shown, err)
	})
	kubectl(t, r.bed, "delete", "pod", first)
	second, after := r.next(t, "owned", first)
	const inside = "net2" // as addressesOf names the network
	if before.node != after.node || before.addresses[inside] == "" || before.addresses[inside] != after.addresses[inside] {
		t.Errorf("%s had %v, and %s has %v", first, before, second, after)
	}
}
