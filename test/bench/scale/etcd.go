package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/limpet-io/limpet/test/bench/bed"
)

// batch is how many objects one transaction writes.
const batch = 250

var errEtcd = errors.New("etcd refused a transaction")

// writer writes objects into etcd as the API server stores them.
type writer struct {
	b       *bench
	encoder runtime.Serializer
}

func (b *bench) writer() *writer { return &writer{b, protobuf.NewSerializer(b.Scheme, b.Scheme)} }

// write writes n objects, and says how far it is.
func (w *writer) write(ctx context.Context, what string, n int, object func(int) client.Object) error {
	w.b.progress("write %d %s into etcd", n, what)
	const hands = 4
	var wg sync.WaitGroup
	errs := make([]error, hands)
	for hand := range hands {
		wg.Go(func() {
			for from := hand * batch; from < n && errs[hand] == nil; from += hands * batch {
				if from%(100*batch) == 0 && from > 0 {
					w.b.progress("%d of %d", from, n)
				}
				errs[hand] = w.transact(ctx, from, min(from+batch, n), object)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// transact writes some objects at once.
func (w *writer) transact(ctx context.Context, from, to int, object func(int) client.Object) error {
	type put struct {
		RequestPut struct {
			Key   string `json:"key"`
			Value string `json:"value"`
		} `json:"requestPut"`
	}
	var all struct {
		Success []put `json:"success"`
	}
	for i := from; i < to; i++ {
		o := object(i)
		key, value, err := w.encode(o)
		if err != nil {
			return err
		}
		var p put
		p.RequestPut.Key, p.RequestPut.Value = base64.StdEncoding.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString(value)
		all.Success = append(all.Success, p)
	}
	body, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode transaction: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.b.Server.ControlPlane.Etcd.URL.String()+"/v3/kv/txn", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(answer.Bytes(), []byte(`"succeeded":true`)) {
		return fmt.Errorf("%w: %s: %.300s", errEtcd, resp.Status, answer.String())
	}
	return nil
}

// encode returns the key and the value of an object. Custom resources are stored as JSON.
func (w *writer) encode(o client.Object) (key string, value []byte, err error) {
	kind, err := apiutil.GVKForObject(o, w.b.Scheme)
	if err != nil {
		return "", nil, fmt.Errorf("find kind: %w", err)
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	where := map[schema.GroupKind]string{
		{Kind: "Pod"}: "pods", {Kind: "Node"}: "minions", {Group: "apps", Kind: "StatefulSet"}: "statefulsets",
		{Group: "apps", Kind: "ReplicaSet"}: "replicasets", {Group: "apps", Kind: "Deployment"}: "deployments",
		{Group: "limpet.dev", Kind: "NodeIPPool"}: "limpet.dev/nodeippools", {Group: "limpet.dev", Kind: "IPReservation"}: "limpet.dev/ipreservations",
	}[kind.GroupKind()]
	key = "/registry/" + where + "/"
	if o.GetNamespace() != "" {
		key += o.GetNamespace() + "/"
	}
	key += o.GetName()
	if kind.Group == "limpet.dev" {
		value, err = json.Marshal(o)
		return key, value, err
	}
	var text bytes.Buffer
	if err := w.encoder.Encode(o, &text); err != nil {
		return "", nil, fmt.Errorf("encode %s: %w", key, err)
	}
	return key, text.Bytes(), nil
}

// etcdBytes is the size of etcd's file.
func (b *bench) etcdBytes() (int64, error) {
	info, err := os.Stat(filepath.Join(b.Server.ControlPlane.Etcd.DataDir, "member", "snap", "db"))
	if err != nil {
		return 0, fmt.Errorf("look at etcd: %w", err)
	}
	return info.Size(), nil
}

// visible waits until the API server shows as many pods as were written.
func (b *bench) visible(ctx context.Context, pods int) error {
	b.progress("wait until the API server shows %d pods", pods)
	return poll(ctx, longestWait, func(ctx context.Context) error {
		var list corev1.PodList
		err := b.Client.List(ctx, &list, client.Limit(1))
		if left := list.RemainingItemCount; err == nil && pods > 1 && (left == nil || int(*left)+1 < pods) {
			return fmt.Errorf("not all of %d pods: %w", pods, bed.ErrNotReady)
		}
		return err
	})
}
