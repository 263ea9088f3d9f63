// Package chart makes the Helm chart of Limpet from the manifests in deploy/. Each template is an object as
// kustomize renders it. What a variant such as deploy/own-network changes is a condition on a value.
// So the chart and `kubectl apply -k` cannot differ, and no manifest is written twice.
package chart
