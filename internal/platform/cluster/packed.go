package cluster

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// packedPod is a pod as the cache stores it: in a tenth of the memory. Pods of one template differ
// in few fields, which a packed pod has itself; the rest is a shape that such pods share. Nothing
// is lost, so that no reader must know which pods concern a feature.
type packedPod struct {
	shape           *shape
	full            atomic.Pointer[corev1.Pod] // while the pod is among those that were used last
	namespace, node unique.Handle[string]
	name            string
	uid             [16]byte
	version         uint64
	created         int64  // seconds; 0 for none
	ready           int64  // since when the condition Ready is as it is; 0 for unknown
	ips             string // with commas
	notes           string // annotations, by writeNotes
}

// Values of labels in a shape that stand for the name of the pod, and for the end of the name after
// the last dash. No label has such a value. A StatefulSet labels each pod with both.
const (
	labelOfName  = "\x00name"
	labelOfIndex = "\x00index"
)

// GetObjectMeta returns what informers read of their objects.
func (p *packedPod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{
		Namespace: p.namespace.Value(), Name: p.name, UID: p.id(), ResourceVersion: strconv.FormatUint(p.version, 10),
	}
}

// pack returns a packed pod, or the pod itself where a field has a form that packing would change,
// such as a UID that is none. The fields of the shape remain those of the pod.
func (s *shapes) pack(pod *corev1.Pod) any {
	p, ok := newPacked(pod)
	if !ok || hasNamed(pod.Labels) {
		return pod
	}
	rest := *pod
	rest.Namespace, rest.Name, rest.UID, rest.ResourceVersion, rest.Spec.NodeName = "", "", "", "", ""
	rest.CreationTimestamp, rest.Annotations, rest.Status.PodIPs = metav1.Time{}, nil, nil
	rest.Labels = withoutName(pod.Labels, pod.Name)
	if !p.takeReady(&rest) {
		return pod
	}
	if p.shape, ok = s.of(&rest, p.notes); !ok {
		return pod
	}
	if p.notes == p.shape.notes {
		p.notes = p.shape.notes // the same text once
	}
	return p
}

// newPacked takes the fields of a pod that other pods do not have.
func newPacked(pod *corev1.Pod) (*packedPod, bool) {
	p := &packedPod{namespace: unique.Make(pod.Namespace), node: unique.Make(pod.Spec.NodeName), name: strings.Clone(pod.Name)}
	var err error
	if p.version, err = strconv.ParseUint(pod.ResourceVersion, 10, 64); err != nil || strconv.FormatUint(p.version, 10) != pod.ResourceVersion {
		return nil, false
	}
	if !p.takeID(pod.UID) || pod.TypeMeta != (metav1.TypeMeta{}) {
		return nil, false
	}
	if !pod.CreationTimestamp.IsZero() {
		p.created = pod.CreationTimestamp.Unix()
	}
	ips := make([]string, len(pod.Status.PodIPs))
	for i, ip := range pod.Status.PodIPs {
		ips[i] = ip.IP
	}
	p.ips, p.notes = strings.Clone(strings.Join(ips, ",")), writeNotes(pod.Annotations)
	return p, pod.CreationTimestamp.Nanosecond() == 0 && (p.created != 0) == !pod.CreationTimestamp.IsZero() &&
		strings.Count(p.ips, ",") == max(0, len(ips)-1) && (len(ips) == 0) == (p.ips == "")
}

// unpack makes the pod again. Pods of one shape share its slices and maps, which callers must not
// change.
func (p *packedPod) unpack() *corev1.Pod {
	pod := new(corev1.Pod)
	*pod = p.shape.pod
	pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion = p.namespace.Value(), p.name, p.id(), strconv.FormatUint(p.version, 10)
	pod.Spec.NodeName, pod.Labels, pod.Annotations = p.node.Value(), p.labels(), readNotes(p.notes)
	if p.created != 0 {
		pod.CreationTimestamp = metav1.Unix(p.created, 0)
	}
	if p.ips != "" {
		for ip := range strings.SplitSeq(p.ips, ",") {
			pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
	if p.ready != 0 {
		pod.Status.Conditions = slices.Clone(pod.Status.Conditions)
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
				c.LastTransitionTime = metav1.Unix(p.ready, 0)
			}
		}
	}
	return pod
}

// takeReady moves the time of the condition Ready from the rest of a pod.
func (p *packedPod) takeReady(rest *corev1.Pod) bool {
	at := slices.IndexFunc(rest.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if at < 0 || rest.Status.Conditions[at].LastTransitionTime.IsZero() {
		return true
	}
	since := rest.Status.Conditions[at].LastTransitionTime
	more := slices.ContainsFunc(rest.Status.Conditions[at+1:], func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if p.ready = since.Unix(); p.ready == 0 || since.Nanosecond() != 0 || more {
		return false
	}
	rest.Status.Conditions = slices.Clone(rest.Status.Conditions)
	rest.Status.Conditions[at].LastTransitionTime = metav1.Time{}
	return true
}

// withoutName replaces the values of labels that follow from the name of the pod.
func withoutName(labels map[string]string, name string) map[string]string {
	index := indexOf(name)
	var changed map[string]string
	for key, value := range labels {
		var mark string
		switch value {
		case name:
			mark = labelOfName
		case index:
			mark = labelOfIndex
		default:
			continue
		}
		if changed == nil {
			changed = maps.Clone(labels)
		}
		changed[key] = mark
	}
	if changed == nil {
		return labels
	}
	return changed
}

// labels returns the labels with the values that follow from the name.
func (p *packedPod) labels() map[string]string {
	if !p.shape.named {
		return p.shape.pod.Labels
	}
	labels := maps.Clone(p.shape.pod.Labels)
	for key, value := range labels {
		switch value {
		case labelOfName:
			labels[key] = p.name
		case labelOfIndex:
			labels[key] = indexOf(p.name)
		}
	}
	return labels
}

// indexOf is the end of a pod's name after the last dash; a text that no label has where there is
// no dash.
func indexOf(name string) string {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return labelOfIndex
	}
	return name[at+1:]
}

// takeID packs a UID, and reports whether it has the form of one.
func (p *packedPod) takeID(uid types.UID) bool {
	if len(uid) != 36 {
		return false
	}
	digits := string(uid[:8]) + string(uid[9:13]) + string(uid[14:18]) + string(uid[19:23]) + string(uid[24:])
	_, err := hex.Decode(p.uid[:], []byte(digits))
	return err == nil && p.id() == uid
}

// id returns the UID.
func (p *packedPod) id() types.UID {
	text := make([]byte, 0, 36)
	for i, part := range [...][]byte{p.uid[:4], p.uid[4:6], p.uid[6:8], p.uid[8:10], p.uid[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return types.UID(text)
}

// writeNotes writes annotations as one text: lengths and texts, by key.
func writeNotes(notes map[string]string) string {
	if len(notes) == 0 {
		return ""
	}
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(notes)) {
		for _, part := range [...]string{key, notes[key]} {
			text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
		}
	}
	return string(text)
}

// readNotes reads what writeNotes wrote.
func readNotes(text string) map[string]string {
	if text == "" {
		return nil
	}
	notes := map[string]string{}
	for text != "" {
		var key string
		key, text = nextNote(text)
		notes[key], text = nextNote(text)
	}
	return notes
}

// hasNote reports whether writeNotes wrote an annotation of a name.
func hasNote(text, name string) bool {
	for text != "" {
		var key string
		if key, text = nextNote(text); key == name {
			return true
		}
		_, text = nextNote(text)
	}
	return false
}

// nextNote cuts the first part off a text of writeNotes.
func nextNote(text string) (part, rest string) {
	length, size := binary.Uvarint([]byte(text[:min(len(text), binary.MaxVarintLen64)]))
	return text[size : size+int(length)], text[size+int(length):]
}
