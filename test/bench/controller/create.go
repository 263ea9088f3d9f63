package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// kinds of pods that compareCreates makes. The namespace kube-system is left out by the
// webhooks, so that what is made there costs what it costs without Limpet.
const (
	pinned = iota
	pinnedWithout
	plain
	plainWithout
	kinds
)

// compareCreates creates pods of each kind in turns.
func (b *bench) compareCreates(ctx context.Context, r *report) (err error) {
	if err := b.clear(ctx, b.size.creates()); err != nil {
		return err
	}
	if err := b.pointWebhooks(ctx, b.controlled.WebhookPort); err != nil {
		return err
	}
	r.creates, err = b.inTurns(ctx, kinds, func(ctx context.Context, kind int, pod *corev1.Pod) error {
		if kind == pinned {
			return b.createPinned(ctx, pod)
		}
		if kind == plain || kind == plainWithout {
			pod.OwnerReferences, pod.Annotations = nil, nil
		}
		if kind == plainWithout || kind == pinnedWithout {
			pod.Namespace = metav1.NamespaceSystem
		}
		return b.Client.Create(ctx, pod)
	})
	return err
}

// leastWebhook creates the pods that would be pinned, and others, with a webhook in
// Limpet's place that knows its answer beforehand: no webhook adds less.
func (b *bench) leastWebhook(ctx context.Context, r *report) error {
	if err := b.clear(ctx, b.size.creates()); err != nil {
		return err
	}
	port, server, err := b.serve(ctx, http.HandlerFunc(answerBlindly), x509.NewCertPool())
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }() // nothing of it is needed any more
	if err := b.pointWebhooks(ctx, port); err != nil {
		return err
	}
	if err := poll(ctx, func(ctx context.Context) error {
		return b.createBlindly(ctx, pinned, podAt{set: probeSet}.object(), client.DryRunAll)
	}); err != nil {
		return err
	}
	r.least, err = b.inTurns(ctx, pinnedWithout+1, func(ctx context.Context, kind int, pod *corev1.Pod) error {
		return b.createBlindly(ctx, kind, pod)
	})
	return err
}

func (b *bench) createBlindly(ctx context.Context, kind int, pod *corev1.Pod, options ...client.CreateOption) error {
	if kind == pinnedWithout {
		pod.Namespace = metav1.NamespaceSystem
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, reservation.RetainAnnotation, "10") // to which the blind patch adds
	if err := b.Client.Create(ctx, pod, options...); err != nil {
		return fmt.Errorf("create pod: %w", err)
	}
	blind := slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == blindGate })
	if blind != (kind == pinned) {
		return fmt.Errorf("%s: %w", pod.Name, errNotPinned)
	}
	return nil
}

// inTurns creates pods at a rate, one of each kind after the other.
func (b *bench) inTurns(ctx context.Context, kinds int, create func(ctx context.Context, kind int, pod *corev1.Pod) error) ([]measure.Sample, error) {
	all, err := b.steadily(ctx, b.size.rate, b.size.creates(), func(ctx context.Context, i int) error {
		return create(ctx, i%kinds, b.pod(i).object())
	})
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	samples := make([]measure.Sample, kinds)
	for i, took := range all {
		samples[i%kinds] = append(samples[i%kinds], took)
	}
	return samples, nil
}

// blindGate is not Limpet's, so that the pod is of no concern to the controller.
const blindGate = "example.com/gate"

// blindPatch adds as much to a pod as a pin does.
const blindPatch = `[
 {"op":"add","path":"/metadata/annotations/example.com~1node","value":"node-1"},
 {"op":"add","path":"/metadata/annotations/example.com~1state","value":"app-1"},
 {"op":"add","path":"/spec/affinity","value":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,
  "preference":{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["node-1"]}]}}]}}},
 {"op":"add","path":"/spec/schedulingGates","value":[{"name":"` + blindGate + `"}]}]`

func answerBlindly(w http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	question, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(question, &review)
	}
	if err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	kind := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: &kind, Patch: []byte(blindPatch)}
	review.Request = nil
	answer, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the API server fails the pod when it does not get it
}
