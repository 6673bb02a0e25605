use super::*;

impl Node {
    /// A node with that server.
    pub(crate) fn of_tests(client: Arc<Client>, server: ServerId) -> Self {
        let place = Place::Remote(Remote { client, server, folder: Mutex::new(b"/".to_vec()) });
        Self(Arc::new(Inner { name: "of-tests".to_owned(), place }))
    }
}
