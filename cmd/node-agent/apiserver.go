package main

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// findAPIServer returns how to reach the API server: as KUBECONFIG says, unless its value is empty, else as the account
// of the pod says, else as the file in the user's home says.
func findAPIServer(kubeconfig string) (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if err != nil || kubeconfig != "" {
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	if config.QPS == 0 {
		config.QPS = -1 // the API server limits its clients itself
	}
	return config, nil
}
