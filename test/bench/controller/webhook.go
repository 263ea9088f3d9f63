package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
)

var (
	errNoAuthority = errors.New("no authority in the webhook configurations yet")
	errNotPinned   = errors.New("pod was created without its pin")
)

// pointWebhooks installs deploy/controller/webhooks.yaml, with the service replaced by a
// port of this machine, and waits until the API server calls it.
func (b *bench) pointWebhooks(ctx context.Context, port int) error {
	var names []client.Object
	err := b.Manifests("controller/webhooks.yaml", func(o *unstructured.Unstructured) error {
		old := o.DeepCopy()
		err := b.Client.Get(ctx, client.ObjectKeyFromObject(o), old)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		redirect(o, old, port)
		names = append(names, o)
		if apierrors.IsNotFound(err) {
			return b.Client.Create(ctx, o)
		}
		o.SetResourceVersion(old.GetResourceVersion())
		return b.Client.Update(ctx, o)
	})
	if err != nil {
		return err
	}
	err = poll(ctx, func(ctx context.Context) error { return b.authorised(ctx) })
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
	if err := b.Client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace: %w", err)
	}
	return poll(ctx, b.probe)
}

// redirect turns services into URLs, and keeps the authority that the controller has
// filled in.
func redirect(o, old *unstructured.Unstructured, port int) {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	before, _, _ := unstructured.NestedSlice(old.Object, "webhooks")
	for i, h := range hooks {
		config := h.(map[string]any)["clientConfig"].(map[string]any)
		path, _, _ := unstructured.NestedString(config, "service", "path")
		delete(config, "service")
		config["url"] = fmt.Sprintf("https://localhost:%d%s", port, path)
		if i < len(before) {
			if ca, found, _ := unstructured.NestedString(before[i].(map[string]any), "clientConfig", "caBundle"); found {
				config["caBundle"] = ca
			}
		}
	}
	o.Object["webhooks"] = hooks
}

// authorised waits for the leader to fill in the authority.
func (b *bench) authorised(ctx context.Context) error {
	var list admissionv1.MutatingWebhookConfigurationList
	if err := b.Client.List(ctx, &list); err != nil {
		return err
	}
	for _, c := range list.Items {
		for _, w := range c.Webhooks {
			if len(w.ClientConfig.CABundle) == 0 {
				return errNoAuthority
			}
		}
	}
	return nil
}

// probe asks for a pod that the webhook must answer for, and that is not made.
func (b *bench) probe(ctx context.Context) error {
	pod := podAt{set: probeSet}.object()
	return b.Client.Create(ctx, pod, client.DryRunAll)
}

// askWebhook creates pods that have a record and nothing else, at a rate, past a relay
// that takes the time of each answer.
func (b *bench) askWebhook(ctx context.Context, r *report) error {
	if err := b.clear(ctx, b.size.creates()); err != nil {
		return err
	}
	relay, err := b.startRelay(ctx)
	if err != nil {
		return err
	}
	defer relay.stop()
	if err := b.pointWebhooks(ctx, relay.port); err != nil {
		return err
	}
	if err := poll(ctx, relay.used); err != nil {
		return err
	}
	relay.take() // the probes
	if _, err := b.Audit.Next(); err != nil {
		return err
	}
	if _, err := b.steadily(ctx, b.size.rate, b.size.creates(), func(ctx context.Context, i int) error {
		return b.createPinned(ctx, b.pod(i).object())
	}); err != nil {
		return err
	}
	r.webhook = relay.take()
	if len(r.webhook) < b.size.creates() {
		return fmt.Errorf("the relay saw %d of %d pods", len(r.webhook), b.size.creates()) //nolint:err113 // for a person
	}
	r.createRequests, err = b.Audit.Next()
	return err
}

// clear removes the first n pods, and those of their names that were made without
// Limpet; their records stay.
func (b *bench) clear(ctx context.Context, n int) error {
	return b.parallel(ctx, hands, n, func(ctx context.Context, i int) error {
		without := b.pod(i).object()
		without.Namespace = metav1.NamespaceSystem
		return errors.Join(b.remove(ctx, b.pod(i).object()), b.remove(ctx, without))
	})
}

func (b *bench) createPinned(ctx context.Context, pod *corev1.Pod) error {
	if err := b.Client.Create(ctx, pod); err != nil {
		return fmt.Errorf("create pod: %w", err)
	}
	if !slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == pin.Gate }) {
		return fmt.Errorf("%s: %w", pod.Name, errNotPinned)
	}
	return nil
}
