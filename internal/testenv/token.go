package testenv

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Token returns the configuration of a client with a real token of a service account in
// limpet-system. As a kubelet does, it asks for a token that is bound to a pod, here a new
// one on a node. Without a node the token is bound to nothing.
func (e *Env) Token(t testing.TB, account, node string) *rest.Config {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: controllerNamespace, Name: account}}
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod := APod(e.Name(account)).In(controllerNamespace).On(node)
		pod.Spec.ServiceAccountName = account
		e.Create(t, pod.Pod)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	if err := e.Client.SubResource("token").Create(t.Context(), sa, request); err != nil {
		t.Fatalf("request token of %s: %v", account, err)
	}
	return &rest.Config{
		Host: e.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: e.Config.CAData}, BearerToken: request.Status.Token, QPS: -1,
	}
}

// As returns a client that has a configuration, and no cache.
func (e *Env) As(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: e.Scheme, Mapper: e.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
