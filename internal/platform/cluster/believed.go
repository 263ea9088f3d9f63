package cluster

import (
	"context"
	"errors"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Believed reports whether the agent of a node wrote an object: the object names the node in
// its status, and the live Node owns it. Where the policies of deploy/policies are missing,
// an agent could write objects in the name of any node; this check remains.
func Believed(node *corev1.Node, named string, owners []metav1.OwnerReference) bool {
	return node != nil && node.Name == named && slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
		return ownsAsNode(o) && o.Name == named && o.UID == node.UID
	})
}

// maxName is the length of the longest name of an object.
const maxName = 253

// Plausible returns an error for a pod that no API server stores. A mutating webhook is asked before the API server
// looks at names, and any program that reaches the port may send a review.
func Plausible(pod *corev1.Pod, uid types.UID) error {
	if max(len(pod.Namespace), len(pod.Name), len(pod.GenerateName), len(pod.UID), len(uid)) > maxName {
		return errors.New("a pod has names and UIDs of 253 bytes at most")
	}
	return nil
}

// NodeOwner keeps the owner reference of an object to a Node, which Believed reads. The
// objects of one node share its text. An agent may write any UID; a long one is that of no Node.
func NodeOwner[T client.Object](from, to T) {
	for _, o := range from.GetOwnerReferences() {
		if ownsAsNode(o) && len(o.Name) <= maxName && len(o.UID) <= maxName {
			short := metav1.OwnerReference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID}
			to.SetOwnerReferences([]metav1.OwnerReference{unique.Make(short).Value()})
			return
		}
	}
}

func ownsAsNode(o metav1.OwnerReference) bool { return o.APIVersion == "v1" && o.Kind == "Node" }

// believed drops objects that Believed rejects.
func believed[T any](
	ctx context.Context, r client.Reader, items []T, of func(*T) (node string, owners []metav1.OwnerReference),
) (kept []T, nodes map[string]*corev1.Node, err error) {
	nodes = map[string]*corev1.Node{}
	for i := range items {
		name, owners := of(&items[i])
		if _, known := nodes[name]; !known {
			if nodes[name], err = Node(ctx, r, name); err != nil {
				return nil, nil, err
			}
		}
		if Believed(nodes[name], name, owners) {
			kept = append(kept, items[i])
		}
	}
	return kept, nodes, nil
}
