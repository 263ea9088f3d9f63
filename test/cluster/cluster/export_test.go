package cluster

// What the tests look at.
var (
	HandDown = handDown
	Retry    = retry
)

// Arguments returns the command line of a component.
func Arguments(config Config, k Component) []string {
	return newCluster(config, nil).arguments(k)
}
