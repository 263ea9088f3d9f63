// Package validate judges PersistentPodStates, WorkloadSpreads and PodUnavailableBudgets when
// they are written, and warns of wrong annotations in pod templates.
package validate
