package main

import (
	"fmt"
	"strings"

	"github.com/limpet-io/limpet/test/bench/answers"
	"github.com/limpet-io/limpet/test/cluster/cluster"
)

// side is one of the two setups that are compared.
type side struct {
	title, namespace string
	// statefulSet and template are the annotations of the StatefulSet and its pods.
	statefulSet, template string
	hostLocal             bool
}

var sides = []side{
	{
		title: "with Limpet", namespace: "default",
		statefulSet: `{"kruise.io/auto-generate-persistent-pod-state":"true","kruise.io/preferred-persistent-topology":"kubernetes.io/hostname"}`,
		template:    `{"io.kubernetes.cri/reserved-ip-duration":"10"}`,
	},
	// Limpet's webhooks ignore this namespace.
	{title: "on host-local", namespace: "kube-system", statefulSet: "{}", template: "{}", hostLocal: true},
}

// set is the name of the StatefulSet, and of its headless Service.
const set = "bench"

// way is how a client knows a pod.
type way struct {
	title string
	// host returns the address or the name of a pod.
	host func(s side, pod, clusterIP, podIP string) string
	dns  string
}

func podDNSName(s side, pod, _, _ string) string {
	return pod + "." + set + "." + s.namespace + ".svc.cluster.local."
}

// ways begins with those that the picture shows.
var ways = []way{
	{"name", podDNSName, cluster.DNSServer},
	{"Service", func(_ side, _, clusterIP, _ string) string { return clusterIP }, ""},
	{"address", func(_ side, _, _, podIP string) string { return podIP }, ""},
	{"uncached name", podDNSName, cluster.UncachedDNSServer},
	{"early name", func(s side, pod, _, _ string) string { return early + pod + "." + s.namespace + ".svc.cluster.local." }, cluster.DNSServer},
}

const drawnWays = 3

func (w way) target(s side, pod, clusterIP, podIP string) answers.Target {
	host := w.host(s, pod, clusterIP, podIP)
	return answers.Target{Key: w.title + " " + host, Pod: pod, Host: host, DNS: w.dns}
}

// early begins the name of a headless Service that publishes a pod before it is Ready.
const early = "early-"

// manifest is a StatefulSet with its headless Service, and two Services for each pod.
func (s side) manifest(pods []string) string {
	var all strings.Builder
	service := func(name, spec, label, value string) {
		fmt.Fprintf(&all, `{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{%s"ports":[{"port":8080}],"selector":{%q:%q}}}`+"\n---\n",
			name, spec, label, value)
	}
	service(set, `"clusterIP":"None",`, "app", set)
	for _, pod := range pods {
		service(pod, "", "statefulset.kubernetes.io/pod-name", pod)
		service(early+pod, `"clusterIP":"None","publishNotReadyAddresses":true,`, "statefulset.kubernetes.io/pod-name", pod)
	}
	fmt.Fprintf(&all, `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":%[1]q,"annotations":%[2]s},"spec":{"replicas":%[3]d,
	  "serviceName":%[1]q,"podManagementPolicy":"Parallel","selector":{"matchLabels":{"app":%[1]q}},"template":{"metadata":{"labels":{"app":%[1]q},
	  "annotations":%[4]s},"spec":{"terminationGracePeriodSeconds":5,"topologySpreadConstraints":[{"maxSkew":1,
	  "topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":%[1]q}}}],
	  "containers":[{"name":"echo","image":"cilium/echoserver:latest","imagePullPolicy":"IfNotPresent"}]}}}}`, set, s.statefulSet, len(pods), s.template)
	return all.String()
}
