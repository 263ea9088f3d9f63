package plan

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// IPAM is the kind of IPAM plugin that gives pods their addresses on a node.
type IPAM string

const (
	// IPAMUnknown means that there is no network configuration, or that the one in use
	// delegates to configurations which are not among the files.
	IPAMUnknown IPAM = "unknown"
	// IPAMLimpet means that the network in use names limpet-ipam.
	IPAMLimpet IPAM = "limpet-ipam"
	// IPAMOther means that the network in use names another plugin: pods get no reservations.
	IPAMOther IPAM = "other"
)

// NodeIPAM is the IPAM plugin in use and the name of the configuration file that says so.
type NodeIPAM struct {
	By   IPAM
	File string
	// NotAdopted says why the agent has not patched the file; empty where it was not asked to.
	NotAdopted string
	// Drops names the chains that drop forwarded packets, in own mode.
	Drops string
}

// ConfigFile is a file with a network configuration, or a list of them.
type ConfigFile struct {
	Name string
	Data []byte
}

// FindIPAM looks for the IPAM plugin in use in the network configurations of a node, in the
// order in which runtimes read them. The first valid file counts. A file whose plugin
// delegates to other configurations, as multus does, counts together with the files behind it.
func FindIPAM(files []ConfigFile) NodeIPAM {
	for i, f := range files {
		var conf any
		if json.Unmarshal(f.Data, &conf) != nil {
			continue
		}
		switch {
		case namesLimpet(conf):
			return NodeIPAM{By: IPAMLimpet, File: f.Name}
		case !delegates(conf):
			return NodeIPAM{By: IPAMOther, File: f.Name}
		}
		if behind := FindIPAM(files[i+1:]); behind.By == IPAMLimpet {
			return behind
		}
		return NodeIPAM{By: IPAMUnknown, File: f.Name}
	}
	return NodeIPAM{By: IPAMUnknown}
}

// namesLimpet reports whether a configuration names limpet-ipam as an IPAM plugin, at any
// depth: a delegate's configuration is nested in the delegating plugin's.
func namesLimpet(conf any) bool {
	switch c := conf.(type) {
	case []any:
		return slices.ContainsFunc(c, namesLimpet)
	case object:
		if ipam, ok := c["ipam"].(object); ok && ipam["type"] == PluginName {
			return true
		}
		for _, v := range c {
			if namesLimpet(v) {
				return true
			}
		}
	}
	return false
}

// delegates reports whether a configuration belongs to a plugin that runs the plugins of
// other configurations.
func delegates(conf any) bool {
	c, _ := conf.(object)
	plugins, isList := c["plugins"].([]any)
	if !isList {
		plugins = []any{c}
	}
	return slices.ContainsFunc(plugins, func(p any) bool {
		plugin, _ := p.(object)
		name, _ := plugin["type"].(string)
		return slices.Contains([]string{"multus", "multus-shim", "genie"}, name)
	})
}

// ReasonForeignNetwork is the reason of the event on a node whose pods get their addresses
// from another IPAM plugin.
const ReasonForeignNetwork = "ForeignNetwork"

// ReasonForwardingDropped is the reason of the event on a node that may drop packets to and from pods.
const ReasonForwardingDropped = "ForwardingDropped"

// eventName returns a name that no other event of the node has.
func eventName(node string, now time.Time) string {
	if name := fmt.Sprintf("%s.%x", node, now.UnixNano()); len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return v1alpha1.ObjectName(node, fmt.Sprintf("%x", now.UnixNano()))
}

// maxMessage is the longest message of an event, in bytes.
const maxMessage = 1024

// NetworkEvents returns the events about what has changed of the network of a node: another IPAM plugin than Limpet's is in use,
// or other chains drop packets.
func NetworkEvents(node, dir string, was, is NodeIPAM, now time.Time) (events []*corev1.Event) {
	if is.Drops != "" && is.Drops != was.Drops {
		events = append(events, forwardingEvent(node, is.Drops, now))
	}
	was.Drops = is.Drops
	if is != was && (is.By == IPAMOther || is.NotAdopted != "") {
		events = append(events, foreignNetworkEvent(node, dir, is, now.Add(1))) // the names of events tell their time
	}
	return events
}

// foreignNetworkEvent returns the event for a node whose network configuration, in dir,
// names another IPAM plugin. It says why the agent did not patch it, if that was its task.
func foreignNetworkEvent(node, dir string, is NodeIPAM, now time.Time) *corev1.Event {
	var message string
	if is.File != "" {
		message = fmt.Sprintf("%s is the network configuration of this node and does not name %s as its IPAM plugin: its pods get no reservations", filepath.Join(dir, is.File), PluginName)
	}
	if is.File != "" && is.NotAdopted != "" {
		message += "; "
	}
	return nodeEvent(node, ReasonForeignNetwork, message+is.NotAdopted, now)
}

// forwardingEvent returns the event for a node with chains that drop forwarded packets.
func forwardingEvent(node, chains string, now time.Time) *corev1.Event {
	return nodeEvent(node, ReasonForwardingDropped, fmt.Sprintf("chains of the packet filter drop forwarded packets unless a rule accepts them: %s. Pods reach no other node "+
		"without a rule for each of the cluster's pod CIDRs as source and as destination. Remedy: accept these, or set the policy of the chains to accept", chains), now)
}

func nodeEvent(node, reason, message string, now time.Time) *corev1.Event {
	at := metav1.NewTime(now)
	message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: eventName(node, now)},
		// kubectl describe node looks for events whose UID is the node's name.
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)},
		Type:           corev1.EventTypeWarning, Reason: reason,
		Message: message,
		Source:  corev1.EventSource{Component: "limpet-agent", Host: node}, FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}
