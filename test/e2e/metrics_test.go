package e2e_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cniexec"
	"github.com/limpet-io/limpet/test/debian"
	"github.com/limpet-io/limpet/test/monitoring"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const measuredBudget = `apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: measured, namespace: default}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: measured}}}
`

// areMeasured has a real Prometheus scrape the pods that deploy/monitoring names. Each query of each panel and
// variable, and each series of an alert, returns data. The numbers of workloads are as old as a minute.
func areMeasured(t *testing.T) {
	t.Helper()
	apply(t, set("measured", 1, retain, "10"))
	before := pods(t, "measured", 1)
	p, targets, rules := scrape(t)
	kubectl(t, "delete", "pod", "measured-0")
	after := pods(t, "measured", 1)
	kept(t, before, after)
	apply(t, measuredBudget)
	await(t, time.Minute, "the budget to refuse an eviction", func(ctx context.Context) (bool, string) {
		err := theBed.Client.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "measured-0"}})
		return apierrors.IsTooManyRequests(err), fmt.Sprint(err)
	})

	queries, err := monitoring.Queries("../..", "default", "measured")
	if err != nil || len(queries) < 90 {
		t.Fatalf("%d queries test little: %v", len(queries), err)
	}
	for what, query := range map[string]string{
		"all agents and controllers": fmt.Sprintf("count(up == 1) == %d", targets),
		"one leader":                 "sum(limpet_leader) == 1",
		"the rebuild":                `max(limpet_workload_rebuilds_total{persistentpodstate="measured",outcome="Kept"}) >= 1`,
		"the verbs of the pod's node": fmt.Sprintf(
			`sum(limpet_plugin_verb_seconds_count{verb="ADD",instance=%q}) > 0`, after["measured-0"].Spec.NodeName),
		"the refused eviction": `sum(limpet_budget_decisions_total{vector="evict",verdict="Refused"}) > 0`,
	} {
		queries = append(queries, monitoring.Query{Of: what, Expr: query})
	}
	await(t, 3*time.Minute, "all queries to return data", func(ctx context.Context) (bool, string) {
		var last error
		queries = slices.DeleteFunc(queries, func(q monitoring.Query) bool {
			err := p.HasData(ctx, q.Expr)
			if err != nil {
				last = fmt.Errorf("%s: %w", q.Of, err)
			}
			return err == nil
		})
		if len(queries) > 0 { // many queries would take the time of the cluster
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return len(queries) == 0, fmt.Sprintf("%d do not, such as %v", len(queries), last)
	})
	await(t, time.Minute, "each rule to be evaluated", func(ctx context.Context) (bool, string) {
		err := p.Evaluated(ctx, rules)
		return err == nil, fmt.Sprint(err)
	})
}

// scrape starts a Prometheus where the control plane runs, from which nodes and pods can be reached. It counts the
// targets and the rules.
func scrape(t *testing.T) (p monitoring.Server, targets, rules int) {
	t.Helper()
	cache, err := debian.Cache(os.Getenv(debian.CacheVar))
	if err != nil {
		t.Fatal(err)
	}
	programs, err := monitoring.Fetch(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, rules, err := monitoring.WriteRules("../..", dir)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := cniexec.OpenNetNS(theBed.Cluster.ControlNetNS())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	p = monitoring.Server{Address: "127.0.0.1:9090", Dial: func(ctx context.Context, network, address string) (c net.Conn, err error) {
		return c, inside.In(func() (err error) {
			c, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
	}}
	scraped := monitored(t)
	args, err := p.Arguments(dir, time.Second, files, scraped)
	if err != nil {
		t.Fatal(err)
	}
	launch(t, inside, filepath.Join(dir, "log"), programs.Prometheus, args...)
	return p, len(scraped), rules
}

// launch runs a program in a network namespace until the test ends.
func launch(t *testing.T, inside cniexec.NetNS, logFile, program string, args ...string) {
	t.Helper()
	log, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := inside.In(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no data worth an end in order
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(logFile); err == nil && t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(program), text[max(0, len(text)-8000):])
		}
	})
}

// monitored returns the ports that the PodMonitors of deploy/monitoring select, as the operator of Prometheus does.
func monitored(t *testing.T) (targets []monitoring.Target) {
	t.Helper()
	monitors, err := monitoring.Monitors("../..")
	if err != nil || len(monitors) != 2 {
		t.Fatalf("PodMonitors %+v: %v", monitors, err)
	}
	for _, m := range monitors {
		list, err := theBed.Client.CoreV1().Pods(m.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: labels.FormatLabels(m.MatchLabels)})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, pod := range list.Items {
			if port := portOf(pod, m.Port); port != 0 && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
				target := monitoring.Target{Address: net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port)), Labels: map[string]string{"pod": pod.Name}}
				for _, label := range m.FromNode {
					target.Labels[label] = pod.Spec.NodeName
				}
				targets, found = append(targets, target), found+1
			}
		}
		if found < 2 {
			t.Fatalf("PodMonitor %s selects %d of %d pods", m.Name, found, len(list.Items))
		}
	}
	return targets
}

func portOf(pod corev1.Pod, name string) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name {
				return p.ContainerPort
			}
		}
	}
	return 0
}
