package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/answers"
)

const intro = `# Benchmark of a rebuild

Written by ` + "`make bench-rebuild`" + ` on the local three-node cluster. Pods of a StatefulSet are deleted, with a grace period
of 5 s or by force, while a client asks each of them again and again. **Seconds without an answer** run from the
deletion until the first answer after which the pod answers all requests for 6 s. A pod that gives none until its next
deletion, or until the end of the scene, is **never** answered. The pods are in turns with Limpet, which keeps node and
addresses, and on upstream host-local with the same interface plugin, in a namespace that Limpet ignores. Limpet's
agents and controller run all the time.

The client runs on a node, behind kube-proxy (nftables). Each request is a new connection, has 500 ms, and counts only
if the pod itself answers. The client knows a pod in five ways:

* **name**: the pod DNS name, of which the client asks CoreDNS before each request. CoreDNS has the defaults of its
  plugins: it keeps an answer for 5 s, also the answer that there is no such name.
* **Service**: the cluster IP of a Service that has only this pod.
* **address**: the address that the pod had before its deletion, as of a client that keeps what it has resolved.
* **uncached name**: the pod DNS name, at a CoreDNS that keeps nothing about names of the cluster, as kubeadm configures
  it.
* **early name**: the name of a headless Service with ` + "`publishNotReadyAddresses`" + `, at the CoreDNS that keeps answers.

CoreDNS is a process beside the control plane, and reads the API server as in a pod. A load before a scene is that of
other work.

![seconds without an answer](../pictures/rebuild.svg)

`

// markdown renders the page.
func (r *results) markdown() string {
	var w strings.Builder
	w.WriteString(intro + "| scene | each pod is asked every | measured on | took | load of the machine before |\n|---|---|---|---|---|\n")
	for _, s := range scenes {
		if ran, ok := r.Ran[s.name]; ok {
			fmt.Fprintf(&w, "| %s | %d ms | %s | %.0f s | %.1f |\n", s.title, s.interval.Milliseconds(), ran.Machine.Day, ran.Took.Seconds(), ran.Machine.Load)
		}
	}
	w.WriteString("\n## Numbers to reach\n\n| what | target | measured | |\n|---|---|---|---|\n" + r.targets())
	for _, s := range scenes {
		if found := r.Scenes[s.name]; found != nil {
			w.WriteString(s.table(found))
		}
	}
	w.WriteString(outro)
	return w.String()
}

const outro = `
With fewer than 100 rebuilds, p99 is the worst. After a force delete the old sandbox still runs. host-local gives the
successor another address at once; limpet-ipam waits inside ADD until the old network namespace is gone, and then gives
the same address. The container here ends when it is asked to. A kubelet grants the whole grace period of the pod also
after a force delete. If a container uses more than 10 s of it (` + "`ipam.addWait`" + `), its successor also waits for the
kubelet's next try.
`

// targets renders the rows of what is to be reached.
func (r *results) targets() string {
	var w strings.Builder
	row := func(what, target, measured string, met bool) {
		verdict := "met"
		if !met {
			verdict = "**missed**"
		}
		fmt.Fprintf(&w, "| %s | %s | %s | %s |\n", what, target, measured, verdict)
	}
	ratio := func(found []summary) float64 {
		return found[0].Quantiles[readyTitle].P50.Seconds() / found[1].Quantiles[readyTitle].P50.Seconds()
	}
	if found := r.Scenes["one"]; found != nil {
		more := 100 * (ratio(found) - 1)
		row("rebuild: delete → Ready, median", "≤ 5 % longer than without", fmt.Sprintf("%+.1f %%", more), more <= 5)
	}
	if found := r.Scenes["forced"]; found != nil {
		row("force delete → Ready, median", "≤ 1.2 × without", fmt.Sprintf("%.2f ×", ratio(found)), ratio(found) <= 1.2)
		row("sandboxes that failed after a force delete (code 11)", "0", fmt.Sprintf("%d of %d", found[0].Retried, found[0].Rebuilds), found[0].Retried == 0)
	}
	if r.Pods > 0 {
		row(fmt.Sprintf("agent's highest memory with %d pods on its node (target for 250)", r.Pods), "≤ 40 MB",
			fmt.Sprintf("%.1f MB", float64(r.Agent)/1e6), r.Agent <= 40e6)
	}
	return w.String()
}

// table renders what a scene found.
func (s scene) table(found []summary) string {
	var w strings.Builder
	fmt.Fprintf(&w, "\n## %s\n\n| seconds: p50 / p99 | %s | %s | ratio |\n|---|---|---|---|\n", s.title, sides[0].title, sides[1].title)
	for _, title := range titles() {
		a, b := found[0].Quantiles[title], found[1].Quantiles[title]
		fmt.Fprintf(&w, "| %s | %s | %s | %s / %s |\n", title, a, b, ratio(a.P50, b.P50), ratio(a.P99, b.P99))
	}
	w.WriteString("\n| of the rebuilds | all | same node and addresses | first sandbox failed |\n|---|---|---|---|\n")
	for i, f := range found {
		fmt.Fprintf(&w, "| %s | %d | %d | %d |\n", sides[i].title, f.Rebuilds, f.Same, f.Retried)
	}
	return w.String()
}

// titles returns the rows of a table.
func titles() []string {
	all := []string{readyTitle}
	for _, w := range ways {
		all = append(all, w.title)
	}
	return all
}

func (q quantiles) String() string {
	text := seconds(q.P50) + " / " + seconds(q.P99)
	if q.Never > 0 {
		text += fmt.Sprintf(" (never: %d)", q.Never)
	}
	return text
}

func seconds(d time.Duration) string {
	if d == answers.Never {
		return "never"
	}
	return fmt.Sprintf("%.2f", d.Seconds())
}

func ratio(a, b time.Duration) string {
	if a == answers.Never || b == answers.Never || b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a.Seconds()/b.Seconds())
}
