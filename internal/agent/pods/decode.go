package pods

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec of requests
	"google.golang.org/grpc/mem"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// maxPod is the longest pod that is decoded. The API server takes no longer request.
const maxPod = 3 << 20

// podsField is the number of the field of pods in ListPodsResponse, and bytesType the type of such a field in protobuf.
const podsField, bytesType = 1, 2

// answer is what is kept of a ListPodsResponse.
type answer struct {
	pods    []corev1.Pod
	fromAPI bool // one of the pods at least is from the API server
}

// codec decodes an answer pod by pod from the buffers of the connection. The codec of gRPC copies the message twice,
// which is more memory than the agent may have for a long one.
type codec struct{}

// Name returns the name of the wire format.
func (codec) Name() string { return "proto" }

// Marshal encodes a request as gRPC does.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return encoding.GetCodecV2("proto").Marshal(v) //nolint:wrapcheck // gRPC wraps the error
}

// Unmarshal decodes an answer.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	to, ok := v.(*answer)
	if !ok {
		return fmt.Errorf("decode a list of pods into %T", v)
	}
	r := data.Reader()
	defer func() { _ = r.Close() }() // frees buffers
	var text []byte
	for r.Remaining() > 0 {
		field, data, err := nextField(r, text)
		if err != nil {
			return fmt.Errorf("decode list of pods: %w", err)
		}
		text = data[:0]
		if field != podsField {
			continue
		}
		if err := to.add(data); err != nil {
			return err
		}
	}
	return nil
}

// nextField reads a field of bytes. The bytes are in the given slice if they fit.
func nextField(r *mem.Reader, text []byte) (field uint64, data []byte, err error) {
	tag, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, nil, fmt.Errorf("read tag: %w", err)
	}
	field, kind := tag>>3, tag&7
	if kind != bytesType {
		return 0, nil, fmt.Errorf("field %d has the unknown type %d", field, kind)
	}
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, nil, fmt.Errorf("read length: %w", err)
	}
	if size > maxPod {
		return 0, nil, errors.New("a pod is longer than the API server takes")
	}
	if uint64(cap(text)) < size {
		text = make([]byte, size)
	}
	text = text[:size]
	if _, err := io.ReadFull(r, text); err != nil {
		return 0, nil, fmt.Errorf("read pod: %w", err)
	}
	return field, text, nil
}

// add keeps what the agent needs of a pod.
func (a *answer) add(data []byte) error {
	var pod metav1.PartialObjectMetadata // the environment is not even decoded
	if err := pod.Unmarshal(data); err != nil {
		return fmt.Errorf("decode pod of the kubelet: %w", err)
	}
	a.fromAPI = a.fromAPI || pod.Annotations[configSource] == "api"
	a.pods = append(a.pods, plan.Strip(&corev1.Pod{ObjectMeta: pod.ObjectMeta}))
	return nil
}
