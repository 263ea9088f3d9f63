package pods

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"runtime/debug"
	"testing"

	"google.golang.org/grpc/mem"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestALongListCostsLittle decodes 62 MiB in buffers of 16 KiB, as gRPC reads them. The agent has 128 MiB in all.
func TestALongListCostsLittle(t *testing.T) {
	const most, count = 8 << 20, 50
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "fat", Annotations: map[string]string{configSource: "api"}}}
	pod.Spec.Hostname = string(bytes.Repeat([]byte("x"), 1300<<10))
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	one := append(binary.AppendUvarint([]byte{podsField<<3 | bytesType}, uint64(len(data))), data...)
	var message mem.BufferSlice
	for rest := bytes.Repeat(one, count); len(rest) > 0; {
		n := min(len(rest), 16<<10)
		message, rest = append(message, mem.SliceBuffer(rest[:n])), rest[n:]
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection takes buffers away, which are then made again
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var got answer
	if err := (codec{}).Unmarshal(message, &got); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if cost := after.TotalAlloc - before.TotalAlloc; cost > most || len(got.pods) != count || !got.fromAPI {
		t.Errorf("%d pods of %d for %d bytes, want %d at the most", len(got.pods), count, cost, most)
	}
	message = message[:len(message)-1]
	if err := (codec{}).Unmarshal(message, &answer{}); err == nil {
		t.Error("a list that is cut is decoded")
	}
}
