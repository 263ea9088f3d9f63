package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Monitor is what a PodMonitor of deploy/monitoring asks of Prometheus.
type Monitor struct {
	Name, Namespace string
	// MatchLabels select the pods, and Port names the port of their metrics.
	MatchLabels map[string]string
	Port        string
	// FromNode are labels that get the name of the pod's node.
	FromNode []string
}

// nodeName is the label in which Prometheus knows the node of a pod.
const nodeName = "__meta_kubernetes_pod_node_name"

// Monitors returns the PodMonitors of deploy/monitoring.
func Monitors(root string) (all []Monitor, err error) {
	path := filepath.Join(root, "deploy", "monitoring", "podmonitors.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read PodMonitors: %w", err)
	}
	for text := range strings.SplitSeq(string(data), "\n---\n") {
		var o struct {
			Metadata struct{ Name, Namespace string }
			Spec     struct {
				Selector            struct{ MatchLabels map[string]string }
				PodMetricsEndpoints []struct {
					Port        string
					Relabelings []struct {
						SourceLabels []string
						TargetLabel  string
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		for _, e := range o.Spec.PodMetricsEndpoints {
			m := Monitor{Name: o.Metadata.Name, Namespace: o.Metadata.Namespace, MatchLabels: o.Spec.Selector.MatchLabels, Port: e.Port}
			for _, r := range e.Relabelings {
				if len(r.SourceLabels) != 1 || r.SourceLabels[0] != nodeName {
					return nil, fmt.Errorf("read %s: the relabeling %+v is not known here: %w", path, r, os.ErrInvalid)
				}
				m.FromNode = append(m.FromNode, r.TargetLabel)
			}
			all = append(all, m)
		}
	}
	return all, nil
}
