"""The testing kit: a scripted model API, a scripted agent, contract suites, and a stage that combines them."""
